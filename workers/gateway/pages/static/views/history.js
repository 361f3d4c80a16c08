// The record of events: by id, or by filters, a page after the other. The state of the filters is in the address.

import { html, nothing } from "../lib/html.js";
import { addressOf } from "../lib/page.js";
import { eventLink, filters, listed, mark, millis, moment, short, summary } from "../lib/parts.js";

export const EVENT_COLUMNS = [
  { head: "Time", cell: (event) => eventLink(event.id, moment(event.time)) },
  { head: "Verdict", cell: (event) => verdictOf(event) },
  { head: "Event", name: true, cell: (event) => event.type },
  { head: "Tool", cell: (event) => event.tool ?? "" },
  { head: "What", cell: (event) => subjectOf(event) },
  { head: "Session", cell: (event) => sessionLink(event) },
  { head: "Agent", cell: (event) => [event.source, event.host].filter(Boolean).join(" on ") },
];

const FIELDS = [
  { name: "type", label: "Type", placeholder: "tool:*, session:end", hint: "Event patterns as in a hook's `on`, with commas" },
  { name: "decision", label: "Decision", options: [["", "any"], "deny", "ask", "allow", "abstain", "fallback"] },
  { name: "tool", label: "Tool", placeholder: "bash|read" },
  { name: "source", label: "Agent", placeholder: "claude" },
  { name: "session", label: "Session", hint: "Its id or the beginning of it" },
  { name: "since", label: "Since", placeholder: "12h", hint: "A length of time ago (90s, 12h, 7d) or a date (2026-11-21T14:30Z)" },
  { name: "until", label: "Until", placeholder: "1h" },
  { name: "where", label: "Condition", placeholder: "event.host == \"build-3\"", hint: "CEL, as in a hook's `when`" },
];

export function open(page) {
  const events = page.list("v1/events", { query: () => eventQuery(page.query), every: 10 });
  const find = (event) => {
    event.preventDefault();
    const id = event.target.elements.id.value.trim();
    if (id) location.hash = addressOf("events", id);
  };
  return () => html`
    <h1>Events</h1>
    <form class="line" @submit=${find}>
      <label>Event <input name="id" placeholder="its id, or the beginning of it" autocomplete="off" spellcheck="false"></label>
      <button>Show its trace</button>
    </form>
    ${filters(page, FIELDS, events.reload)}
    ${listed(events, {
      caption: "Recorded events, the newest first",
      columns: EVENT_COLUMNS,
      key: (event) => event.entry,
      empty: "No recorded event fits.",
    })}`;
}

/** What was decided, and how long that took; "" for an event that was no request. */
function verdictOf({ decision, fallback, verdict }) {
  if (!decision && !fallback) return "";
  return html`${mark(fallback ? "fallback" : decision)} ${verdict ? html`<span class="note">${millis(verdict.ms)}</span>` : nothing}`;
}

/** What the event is about, and why it was decided so. */
function subjectOf(event) {
  const [subject, reason = ""] = [summary(event), event.fallback || event.verdict?.reason];
  return subject || reason ? html`${subject ? html`<code class="what">${subject}</code> ` : nothing}<span class="reason">${reason}</span>` : "";
}

/** A link to the session of an event. */
export function sessionLink({ session, source, host }) {
  return session ? html`<a href=${addressOf("sessions", session, { source, host })}>${short(session)}</a>` : nothing;
}

/** The parameters of `v1/events` for a view's filters: patterns have commas between them in a field. */
export function eventQuery({ type = "", ...rest }) {
  return { ...rest, type: type.split(",").map((pattern) => pattern.trim()) };
}
