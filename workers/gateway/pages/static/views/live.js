// Live events with their verdicts, the newest first. What came before the view was opened is read once from the record.

import { get } from "../lib/api.js";
import { html, nothing } from "../lib/html.js";
import { addressOf } from "../lib/page.js";
import { count, eventLink, filters, mark, millis, moment, problem, short, summary, table } from "../lib/parts.js";

const MOST_ROWS = 300;
const MOST_HELD = 1_000;
const TOLD_SECONDS = 10;

const FIELDS = [
  { name: "decision", label: "Decision", options: [["", "any"], "deny", "ask", "allow", "abstain", "fallback"] },
  { name: "type", label: "Type", placeholder: "tool:*", hint: "Event patterns as in a hook's `on`" },
  { name: "tool", label: "Tool", placeholder: "bash" },
  { name: "source", label: "Agent", placeholder: "claude" },
  { name: "session", label: "Session" },
  { name: "where", label: "Condition", placeholder: "event.input.command.contains(\"rm\")", hint: "CEL, as in a hook's `when`" },
];

export function open(page) {
  let rows = [];
  let held = [];
  let paused = false;
  let feed = null;
  let state = { state: "connecting" };
  let error = null;
  let fresh = [];
  let number = 0;

  function add(event) {
    if (page.query.decision === "fallback" && !event.fallback && event.decision !== "fallback") return;
    const place = paused ? held : rows;
    if (place.some((row) => row.id === event.id) || (paused && rows.some((row) => row.id === event.id))) return;
    place.unshift(event);
    place.length = Math.min(place.length, paused ? MOST_HELD : MOST_ROWS);
    fresh.push(event);
    page.redraw();
  }

  async function readPast(mine) {
    const { type = "", ...rest } = page.query;
    try {
      const past = await get("v1/events", { ...rest, type: type.split(",").map((one) => one.trim()), limit: 100 });
      if (mine !== number) return;
      const known = new Set(rows.map(({ id }) => id));
      rows = [...rows, ...past.items.filter(({ id }) => !known.has(id))].slice(0, MOST_ROWS);
      error = null;
    } catch (problem) {
      if (mine === number) error = problem;
    }
    page.redraw();
  }

  function start() {
    feed?.close();
    [rows, held, fresh] = [[], [], []];
    const mine = ++number;
    let first = true;
    feed = page.feed(
      { events: page.query.type ?? "", where: condition(page.query) },
      (message) => {
        if (message.kind === "event") add(message.event);
        else if (message.kind === "position" && first) {
          first = false;
          readPast(mine); // after the feed's beginning is known: nothing falls between the record and the feed
        }
      },
      (now) => {
        state = now;
        if (now.state === "refused") error = { message: now.problem };
        page.redraw();
      },
    );
  }

  function pause() {
    paused = !paused;
    rows = [...held, ...rows].slice(0, MOST_ROWS);
    held = [];
    page.redraw();
  }

  page.every(TOLD_SECONDS, () => {
    const denied = fresh.filter(({ decision }) => decision === "deny").length;
    if (fresh.length) said = `${count(fresh.length)} new ${fresh.length === 1 ? "event" : "events"}${denied ? `, ${count(denied)} denied` : ""}`;
    fresh = [];
    page.redraw();
  });
  let said = "";
  start();

  return () => html`
    <h1>Live</h1>
    ${filters(page, FIELDS, start)}
    ${problem(error)}
    <div class="line">
      <button type="button" aria-pressed=${paused} @click=${pause}>${paused ? `Go on${held.length ? ` (${count(held.length)}${held.length === MOST_HELD ? " and more" : ""} new)` : ""}` : "Pause"}</button>
      <span class="note">${note(state, paused)}</span>
      <span class="visually-hidden" aria-live="polite">${said}</span>
    </div>
    ${table({ caption: "Events, the newest first", columns: COLUMNS, rows, key: (event) => event.id, empty: "No event fits yet. `fleethook demo` plays some." })}`;
}

const COLUMNS = [
  { head: "Time", cell: (event) => eventLink(event.id, moment(event.time)) },
  { head: "Verdict", cell: (event) => event.decision && html`<span class="one-line">${mark(event.decision)} ${event.verdict?.parts?.length ? html`<span class="note">${millis(event.verdict.ms)}</span>` : nothing}</span>` },
  { head: "Event", name: true, cell: (event) => event.type },
  { head: "Tool", cell: (event) => event.tool ?? "" },
  { head: "What", cell: (event) => html`<code class="what">${summary(event)}</code>${event.verdict?.reason ? html` <span class="reason">${event.verdict.reason}</span>` : nothing}` },
  { head: "Session", cell: (event) => (event.session ? html`<a href=${addressOf("live", "", { session: event.session })}>${short(event.session)}</a>` : nothing) },
  { head: "Agent", cell: (event) => html`<span class="one-line">${[event.source, event.host].filter(Boolean).join(" on ")}</span>` },
];

function note({ state, waiting, missing }, paused) {
  if (state === "away") return "Not connected; trying again. What comes meanwhile is shown then.";
  if (state === "behind") return `Behind by ${count(waiting)} events.`;
  if (missing) return "Some events that came while the connection was lost are no longer kept by the feed.";
  return paused ? "Paused." : "";
}

/** The filters as a CEL condition for the feed. */
function condition({ decision, tool, source, session, where }) {
  const parts = [];
  const quoted = (text) => JSON.stringify(text);
  if (session) parts.push(`event.session.startsWith(${quoted(session)})`);
  if (source) parts.push(`event.source == ${quoted(source)}`);
  if (tool) parts.push(`event.tool in [${tool.split("|").map(quoted).join(", ")}]`);
  if (decision && decision !== "fallback") parts.push(`verdict.decision == ${quoted(decision)}`);
  if (where) parts.push(`(${where})`);
  return parts.join(" && ");
}
