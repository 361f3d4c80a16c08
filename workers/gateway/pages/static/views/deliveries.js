// Deliveries to endpoints and background hooks: what became of each, and every attempt of one.

import { Selection, actOnMany, postIds } from "../lib/bulk.js";
import { html, nothing } from "../lib/html.js";
import { addressOf } from "../lib/page.js";
import { count, eventLink, facts, filters, listed, mark, millis, moment, problem, short, table } from "../lib/parts.js";

const FIELDS = [
  { name: "state", label: "State", options: [["", "any"], "ready", "running", "due", "parked", "delivered", "dead"] },
  { name: "endpoint", label: "Endpoint or hook" },
  { name: "target", label: "Target", placeholder: "endpoint:log" },
  { name: "status", label: "Status", placeholder: "5xx" },
  { name: "type", label: "Event type", placeholder: "tool:*" },
  { name: "session", label: "Session" },
  { name: "event", label: "Event" },
  { name: "reason", label: "Reason" },
  { name: "since", label: "Since", placeholder: "12h" },
];

const AGAIN = new Set(["due", "parked", "dead"]);

export const DELIVERY_COLUMNS = [
  { head: "Delivery", name: true, cell: ({ id, updated }) => html`<a href=${addressOf("deliveries", id)}>${moment(updated)}</a>` },
  { head: "State", cell: ({ state }) => mark(state) },
  { head: "Target", cell: ({ hook, kind }) => html`${kind === "webhook" ? html`<a href=${addressOf("endpoints", hook)}>${hook}</a>` : html`<a href=${addressOf("hooks", hook)}>${hook}</a>`} <span class="note">${kind}</span>` },
  { head: "Event", cell: ({ event, type, tool }) => html`${eventLink(event)} <span class="note">${[type, tool].filter(Boolean).join(" ")}</span>` },
  { head: "Attempts", cell: ({ attempts, log }) => html`${count(attempts)}${log.length && log.at(-1).status ? html` <span class="note">last ${log.at(-1).status}</span>` : nothing}` },
  { head: "Reason", cell: ({ reason }) => reason && html`<span class="reason">${reason}</span>` },
  { head: "Next", cell: ({ due, state }) => (due && state === "due" ? moment(due) : "") },
];

export function open(page) {
  return page.param ? openDelivery(page, "v1/deliveries", "Delivery", html`<a href=${addressOf("deliveries")}>All deliveries</a>`) : openList(page);
}

function openList(page) {
  const deliveries = page.list("v1/deliveries", { query: () => page.query, every: 5 });
  const selection = new Selection(page, deliveries);
  const retry = async () => {
    await actOnMany(page, () => postIds("v1/deliveries/retry", selection.ids), "are tried now");
    selection.clear();
    deliveries.reload();
  };
  return () => html`
    <h1>Deliveries</h1>
    ${filters(page, FIELDS, deliveries.reload)}
    ${selection.bar(html`<button type="button" @click=${retry}>Try now</button>`)}
    ${listed(deliveries, {
      caption: "Deliveries, the newest first",
      columns: [...selection.columns, ...DELIVERY_COLUMNS],
      key: ({ id }) => id,
      empty: "No delivery fits.",
    })}`;
}

/** One delivery or dead letter, read from `path`; `more(shown)` draws what else can be done with it. */
export function openDelivery(page, path, title, back, more = () => nothing) {
  const found = page.resource(`${path}/${encodeURIComponent(page.param)}`, { every: 5 });
  const retry = async () => {
    const { id } = found.value;
    // A dead letter that is tried again is a delivery again.
    if (await actOnMany(page, () => postIds("v1/deliveries/retry", [id]), "is tried now")) location.hash = addressOf("deliveries", id);
    found.reload();
  };
  return () => {
    const shown = found.value;
    return html`
      <h1>${title} ${short(page.param)}</h1>
      <p>${back}</p>
      ${problem(found.error)}
      ${!shown ? nothing : shown.kind === "entry" ? entry(shown, more(shown)) : delivery(shown, html`${AGAIN.has(shown.state) && page.may("operate") ? html`<button type="button" class="yes" @click=${retry}>Try now</button>` : nothing} ${more(shown)}`)}`;
  };
}

function delivery(shown, buttons) {
  return html`
    <div class="line">${mark(shown.state)} ${buttons}</div>
    ${shown.reason ? html`<p class="reason">${shown.reason}</p>` : nothing}
    ${facts([
      ["Id", html`<code>${shown.id}</code>`],
      ["Event", html`${eventLink(shown.event)} ${[shown.type, shown.tool].filter(Boolean).join(" ")}`],
      ["Session", shown.session && html`<a href=${addressOf("sessions", shown.session)}>${shown.session}</a>`],
      ["Target", html`<code>${shown.target}</code>`],
      ["Waits", shown.waits],
      ["Next attempt", shown.state === "due" ? moment(shown.due) : ""],
      ["Made", moment(shown.created)],
      ["Changed", moment(shown.updated)],
      ["Tried again by hand", shown.redrives ? count(shown.redrives) : ""],
      ["Hook set", [shown.layer, shown.version].filter(Boolean).join(" ")],
    ])}
    <h2>Attempts</h2>
    ${table({ caption: "The newest 50 attempts, the last one at the end", columns: ATTEMPT_COLUMNS, rows: shown.log, key: ({ ms }) => ms, empty: "There was none yet." })}
    ${shown.request ? requestOf(shown.request) : nothing}
    <h2>Event</h2>
    ${shown.payload ? html`<pre tabindex="0">${JSON.stringify(shown.payload, undefined, 2)}</pre>` : html`<p class="note">It is no longer kept.</p>`}`;
}

const ATTEMPT_COLUMNS = [
  { head: "Time", name: true, cell: ({ ms }) => moment(ms) },
  { head: "Outcome", cell: ({ outcome, status = 0 }) => html`${mark(outcome)} ${status || nothing}` },
  { head: "Took", cell: ({ took, phases }) => html`${millis(took)}${phases ? html` <span class="note">${phasesOf(phases)}</span>` : nothing}` },
  { head: "Why", cell: ({ error = "" }) => error && html`<span class="reason">${error}</span>` },
  { head: "Answer", cell: ({ head = "", output = "" }) => (head || output ? html`<details><summary>Show</summary><pre tabindex="0">${[head, output].filter(Boolean).join("\n\n")}</pre></details>` : "") },
  { head: "By", cell: ({ carrier = "" }) => carrier },
  { head: "Next", cell: ({ next = 0 }) => (next ? moment(next) : "") },
];

/** The phases of a request that took time. */
function phasesOf(phases) {
  return Object.entries(phases)
    .filter(([, ms]) => typeof ms === "number" && ms > 0)
    .map(([name, ms]) => `${name.replaceAll("_", " ")} ${millis(ms)}`)
    .join(", ");
}

function requestOf({ url, headers, body }) {
  return html`<h2>Request</h2>
    <p class="note">As it would be sent now, without its secrets.</p>
    <pre tabindex="0">POST ${url}
${Object.entries(headers).map(([name, value]) => `${name}: ${value}\n`)}
${body}</pre>`;
}

/** An entry that no consumer could read. */
function entry(letter, buttons) {
  return html`
    <div class="line">${mark("dead")} ${buttons}</div>
    <p class="reason">${letter.reason}</p>
    ${facts([
      ["Id", html`<code>${letter.id}</code>`],
      ["Stream", letter.stream],
      ["Event", eventLink(letter.event)],
      ["Given up", moment(letter.ms)],
    ])}
    <h2>The beginning of its body</h2>
    <pre tabindex="0">${letter.body}</pre>`;
}
