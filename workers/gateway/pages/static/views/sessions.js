// The sessions of agents, and what happened in one of them.

import { ask } from "../lib/ask.js";
import { html, nothing } from "../lib/html.js";
import { addressOf } from "../lib/page.js";
import { ago, count, facts, filters, listed, mark, moment, problem, table } from "../lib/parts.js";
import { EVENT_COLUMNS } from "./history.js";

const FIELDS = [
  { name: "source", label: "Agent", placeholder: "claude" },
  { name: "host", label: "Host" },
  { name: "ended", label: "State", options: [["", "any"], ["false", "open"], ["true", "ended"]] },
];

export function open(page) {
  return page.param ? openSession(page) : openList(page);
}

function openList(page) {
  const sessions = page.list("v1/sessions", { query: () => page.query, every: 10 });
  return () => html`
    <h1>Sessions</h1>
    ${filters(page, FIELDS, sessions.reload)}
    ${listed(sessions, {
      caption: "Sessions of the newest 5,000 events, the one with the newest event first",
      columns: COLUMNS,
      key: ({ id, source, host }) => `${source} ${host} ${id}`,
      empty: "No session is known. `fleethook install` connects an agent.",
    })}`;
}

const COLUMNS = [
  { head: "Session", name: true, cell: (session) => html`<a href=${addressOf("sessions", session.id, { source: session.source, host: session.host })}>${session.id}</a>` },
  { head: "State", cell: (session) => stateOf(session) },
  { head: "Agent", cell: ({ source, version }) => [source, version].filter(Boolean).join(" ") },
  { head: "Host", cell: ({ host }) => host && html`<a href=${addressOf("hosts", host)}>${host}</a>` },
  { head: "Folder", cell: ({ cwd }) => cwd && html`<code class="what">${cwd}</code>` },
  { head: "Last event", cell: ({ last, last_type }) => html`${ago(last)} <span class="note">${last_type}</span>` },
  { head: "Events", cell: ({ events }) => count(events) },
  { head: "Denied", cell: ({ denied }) => (denied ? count(denied) : "") },
  { head: "Fallbacks", cell: ({ fallbacks }) => (fallbacks ? html`<span class="mark" data-word="fallback">! ${count(fallbacks)}</span>` : "") },
];

/** Whether a session ended, and whether tool calls of it ran without their pre-hook event. */
function stateOf({ ended, uncovered = 0 }) {
  return html`${ended ? html`<span class="note">ended</span>` : mark("open")}${
    uncovered ? html` <span class="mark" data-word="failed">! ${count(uncovered)} not covered</span>` : nothing
  }`;
}

function openSession(page) {
  const { source = "", host = "", decision = "" } = page.query;
  const sessions = page.resource("v1/sessions", { query: { source, host }, every: 10 });
  const events = page.list("v1/events", { query: () => ({ session: page.param, source, decision: page.query.decision ?? decision }), every: 10 });
  return () => {
    const session = sessions.value?.items.find(({ id }) => id === page.param);
    return html`
      <h1>Session ${page.param}</h1>
      <p><a href=${addressOf("sessions")}>All sessions</a></p>
      ${problem(sessions.error)}
      ${session && !session.ended && page.may("operate") ? html`<div class="line"><button type="button" @click=${() => say(page, session)}>Say something to it …</button></div>` : nothing}
      ${session ? factsOf(session) : sessions.value ? html`<p class="note">None of the newest 5,000 events is of this session; older ones are below.</p>` : nothing}
      ${(session?.gaps ?? []).length ? gapsOf(session) : nothing}
      <h2>What happened</h2>
      ${filters(page, [{ name: "decision", label: "Decision", options: [["", "any"], "deny", "ask", "allow", "abstain", "fallback"] }], events.reload)}
      ${listed(events, { caption: "Its events, the newest first", columns: EVENT_COLUMNS.filter(({ head }) => head !== "Session"), key: ({ entry }) => entry, empty: "No event is recorded." })}`;
  };
}

/** A message of the person that the session's model reads once. */
async function say(page, { id }) {
  const text = await ask({ title: "What should this session know?", text: "Its model reads it once, with the next event that can carry a text.", yes: "Say it", field: "Message" });
  if (text) page.act("v1/messages", { to: id, text }, ({ cannot }) => (cannot.length ? "This agent has no event that can carry a text to its model." : "It is said with the next event that can carry it."));
}

function factsOf(session) {
  return facts([
    ["State", stateOf(session)],
    ["Agent", [session.source, session.version].filter(Boolean).join(" ")],
    ["Host", session.host && html`<a href=${addressOf("hosts", session.host)}>${session.host}</a>`],
    ["Folder", session.cwd && html`<code>${session.cwd}</code>`],
    ["First event", moment(session.first)],
    ["Last event", html`${moment(session.last)} ${session.last_type}`],
    ["Events", count(session.events)],
    ["Denied", count(session.denied)],
    ["Fallbacks", session.fallbacks ? count(session.fallbacks) : ""],
    ["Tool calls with their pre-hook event", session.calls ? count(session.calls) : ""],
  ]);
}

function gapsOf({ gaps }) {
  return html`<h2>Tool calls without a pre-hook event</h2>
    ${table({
      caption: "No hook was asked about these calls",
      columns: [
        { head: "Cause", name: true, cell: (gap) => gap.text ?? gap.cause },
        { head: "Calls", cell: (gap) => count(gap.calls) },
      ],
      rows: gaps,
      key: (gap) => gap.cause ?? gap.text,
    })}`;
}
