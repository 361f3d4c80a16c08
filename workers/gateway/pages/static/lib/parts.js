// Parts that all views draw with: marks, times, tables, filters, errors.

import { html, nothing, repeat } from "./html.js";
import { addressOf } from "./page.js";

const NARROW = matchMedia("(max-width: 45rem)"); // as in the style sheet

const MARKS = {
  allow: "✓",
  delivered: "✓",
  approved: "✓",
  ok: "✓",
  active: "✓",
  alive: "✓",
  open: "●",
  disabled: "✕",
  "breaker open": "✕",
  "timed out": "◷",
  deny: "✕",
  denied: "✕",
  dead: "✕",
  failed: "✕",
  missing: "✕",
  ask: "?",
  waiting: "?",
  retry: "↻",
  due: "↻",
  parked: "‖",
  paused: "‖",
  abstain: "–",
  fallback: "!",
};

/** A state or decision: a sign, a word and a colour, so that the colour alone says nothing. */
export function mark(word) {
  return word ? html`<span class="mark" data-word=${word}><span aria-hidden="true">${MARKS[word] ?? "·"}</span> ${word}</span>` : nothing;
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

/** A moment (ms since 1970) in local time, with UTC as its title. */
export function moment(ms) {
  if (!ms) return nothing;
  const date = new Date(ms);
  const today = date.toDateString() === new Date().toDateString();
  return html`<time datetime=${date.toISOString()} title=${date.toISOString()}>${today ? "" : `${DAY.format(date)} `}${CLOCK.format(date)}</time>`;
}

/** How long ago a moment is, such as `3 min ago`. */
export function ago(ms, now = Date.now()) {
  return ms ? html`<time datetime=${new Date(ms).toISOString()} title=${new Date(ms).toISOString()}>${span(Math.max(0, now - ms))} ago</time>` : nothing;
}

/** A length of time in whole units: `850 ms`, `12 s`, `3 min`, `5 h`, `2 d`. */
export function span(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  for (const [most, unit, size] of [[120, "s", 1e3], [120, "min", 6e4], [48, "h", 36e5]]) {
    if (ms / size < most) return `${Math.round(ms / size)} ${unit}`;
  }
  return `${Math.round(ms / 864e5)} d`;
}

/** The time that is left, to the second: `4 min 12 s`. */
export function left(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

/** A measured time with three digits: `0.12 ms`, `3.45 ms`, `1.2 s`. */
export function millis(ms) {
  if (ms === undefined || ms === null) return "";
  return ms < 1000 ? `${Number(ms.toPrecision(ms < 1 ? 2 : 3))} ms` : `${Number((ms / 1000).toPrecision(3))} s`;
}

/** A number with separators. */
export function count(number) {
  return new Intl.NumberFormat().format(number);
}

/** The beginning of an id. */
export function short(id) {
  return id.length > 12 ? `${id.slice(0, 11)}…` : id;
}

/** A link to an event's trace. */
export function eventLink(id, text = short(id)) {
  return id ? html`<a href=${addressOf("events", id)}>${text}</a>` : nothing;
}

/** What an event is about, in one line: its command, path, prompt or message. */
export function summary(event) {
  const input = event.input ?? {};
  const data = event.data ?? {};
  const given = [input.command, input.path, input.url, input.pattern, input.query, data.prompt, data.summary, data.message, data.text, data.reason];
  const text = given.find((value) => typeof value === "string" && value) ?? (event.input && Object.keys(input).length ? JSON.stringify(input) : "");
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}

/**
 * A table, whose rows are cards on a narrow screen.
 *
 * `columns`: `{head, cell(row), name}`; `name: true` marks the column that names the row. `key(row, place)` tells the rows apart.
 * `empty` is shown instead of a table without rows. `fold` (`Page.fold`) draws the first rows only, with a button for more: a phone
 * needs seconds for a thousand rows.
 */
export function table({ caption, columns, rows, key, empty = "Nothing yet.", fold = null }) {
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  const shown = fold && rows.length > fold.most ? rows.slice(0, fold.most) : rows;
  const hidden = rows.length - shown.length;
  return html`<div class="table" role="region" aria-label=${caption} tabindex="0">
    <table role="table">
      <caption>${caption}</caption>
      <thead role="rowgroup"><tr role="row">${columns.map(({ head }) => html`<th role="columnheader" scope="col">${head}</th>`)}</tr></thead>
      <tbody role="rowgroup">${repeat(shown, key, (row) => html`<tr role="row">${columns.map((column) => cell(column, row))}</tr>`)}</tbody>
    </table>
  </div>
  ${hidden ? html`<p class="line"><button type="button" @click=${fold.more}>More</button> <span class="note">${count(hidden)} more ${hidden === 1 ? "row" : "rows"}</span></p>` : nothing}`;
}

function cell({ head, cell: content, name }, row) {
  const shown = content(row);
  const none = shown === "" || shown === nothing || shown === undefined || shown === null;
  return name
    ? html`<th role="rowheader" scope="row" data-head=${head}><div>${shown}</div></th>`
    : html`<td role="cell" data-head=${head} ?data-none=${none}><div>${none ? nothing : shown}</div></td>`;
}

/** A list of `Page.list` as a table, with its error, its "more" and its waiting. */
export function listed(list, given) {
  const empty = list.loading ? "Loading …" : given.empty;
  return html`${problem(list.error)}${list.error && !list.items.length ? nothing : table({ ...given, empty, rows: list.items, fold: list.fold })}
    ${list.next && list.items.length <= list.fold.most ? html`<p><button type="button" ?disabled=${list.loading} @click=${list.more}>More</button></p>` : nothing}`;
}

/** An error; a screen reader says it at once. */
export function problem(error) {
  return error ? html`<p class="problem" role="alert">${error.message}</p>` : nothing;
}

/** Pairs of a name and a value; pairs without a value are left out. */
export function facts(pairs) {
  const given = pairs.filter(([, value]) => value !== "" && value !== undefined && value !== null && value !== nothing);
  return html`<dl class="facts">${given.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/**
 * A form of filters whose values are in the address's query.
 *
 * `fields`: `{name, label, options, placeholder, hint}`; with `options` (values, or `[value, text]`) it is a choice. `changed` is
 * called after each change.
 */
export function filters(page, fields, changed) {
  const take = (name) => ({ target }) => {
    if ((page.query[name] ?? "") === target.value.trim()) return;
    page.setQuery({ [name]: target.value.trim() });
    changed();
  };
  const clear = () => {
    page.setQuery(Object.fromEntries(fields.map(({ name }) => [name, ""])));
    changed();
  };
  const active = fields.filter(({ name }) => page.query[name]).length;
  const form = html`<form class="filters" role="search" aria-label="Filters" @submit=${(event) => event.preventDefault()}>
    ${fields.map(
      ({ name, label, options, placeholder = "", hint = "" }) => html`<label>${label}
        ${options
          ? html`<select .value=${page.query[name] ?? ""} @change=${take(name)}>
              ${options.map((one) => [one].flat()).map(([value, text = value || "any"]) => html`<option value=${value} ?selected=${value === (page.query[name] ?? "")}>${text}</option>`)}
            </select>`
          : html`<input .value=${page.query[name] ?? ""} placeholder=${placeholder} title=${hint} autocomplete="off" spellcheck="false" @change=${take(name)}>`}
      </label>`,
    )}
    ${active ? html`<button type="button" @click=${clear}>Clear ${active === 1 ? "filter" : `${active} filters`}</button>` : nothing}
  </form>`;
  // On a phone they would fill the screen, and the list would be below it.
  return NARROW.matches ? html`<details><summary>Filters${active ? `: ${active} in use` : ""}</summary>${form}</details>` : form;
}
