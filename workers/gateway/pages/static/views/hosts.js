// The machines of the fleet: when each was last heard of, what runs there, and which agents report from it.

import { html, nothing } from "../lib/html.js";
import { addressOf } from "../lib/page.js";
import { ago, count, eventLink, facts, listed, mark, moment, problem, table } from "../lib/parts.js";

export function open(page) {
  return page.param ? openHost(page) : openList(page);
}

function openList(page) {
  const hosts = page.list("v1/hosts", { every: 10 });
  return () => html`
    <h1>Hosts</h1>
    ${listed(hosts, {
      caption: "Hosts by name",
      columns: COLUMNS,
      key: ({ host }) => host,
      empty: "No host has reported yet. `fleethook install` connects an agent.",
    })}`;
}

const COLUMNS = [
  { head: "Host", name: true, cell: ({ host }) => html`<a href=${addressOf("hosts", host)}>${host}</a>` },
  { head: "Last contact", cell: (host) => lastContact(host) },
  { head: "Worker", cell: (host) => workerOf(host) },
  { head: "Own hooks", cell: ({ hooks, policies }) => (hooks ? html`${count(hooks)}${policies.length ? html` <span class="note">on failure: ${policies.join(", ")}</span>` : nothing}` : "") },
  { head: "Agents", cell: ({ agents = [] }) => agents.map(({ agent, version }) => [agent, version].filter(Boolean).join(" ")).join(", ") },
  { head: "Gaps", cell: ({ agents = [] }) => gapsOf(agents) },
];

function lastContact({ last = 0, ms = 0 }) {
  return last || ms ? html`${ago(Math.max(last, ms))}` : html`<span class="note">never</span>`;
}

/** The worker that runs the host's own hooks: without it, they are not run for events that evaluators of other hosts judge. */
function workerOf({ alive, hooks }) {
  if (alive) return mark("alive");
  return hooks ? html`<span class="mark" data-word="failed">✕ away</span>` : "";
}

function gapsOf(agents) {
  const calls = agents.reduce((sum, { uncovered = 0 }) => sum + uncovered, 0);
  return calls ? html`<span class="mark" data-word="failed">! ${count(calls)} calls not covered</span>` : "";
}

function openHost(page) {
  const hosts = page.resource("v1/hosts", { every: 10 });
  const sessions = page.list("v1/sessions", { query: { host: page.param }, every: 10 });
  return () => {
    const host = hosts.value?.items.find((one) => one.host === page.param);
    return html`
      <h1>Host ${page.param}</h1>
      <p><a href=${addressOf("hosts")}>All hosts</a></p>
      ${problem(hosts.error)}
      ${host ? factsOf(host) : hosts.value ? html`<p class="note">This host has reported nothing about itself.</p>` : nothing}
      ${host?.agents?.length ? agentsOf(host) : nothing}
      <h2>Sessions</h2>
      ${listed(sessions, { caption: "Its sessions in the newest 5,000 events", columns: SESSION_COLUMNS, key: ({ id, source }) => `${source} ${id}`, empty: "No session is known." })}`;
  };
}

function factsOf(host) {
  const workers = Object.entries(host.workers ?? {});
  return facts([
    ["Last contact", lastContact(host)],
    ["Worker for its own hooks", host.alive ? mark("alive") : "does not run"],
    ["Processes", workers.map(([role, alive]) => (alive > 1 ? `${role} (${alive})` : role)).join(", ")],
    ["Blocking hooks of its own", host.hooks ? count(host.hooks) : ""],
    ["Their failure policies", host.policies.join(", ")],
  ]);
}

function agentsOf({ agents }) {
  return html`<h2>Agents</h2>
    ${table({
      caption: "What each version of each agent reported last",
      columns: [
        { head: "Agent", name: true, cell: ({ agent, version }) => [agent, version].filter(Boolean).join(" ") },
        { head: "Last event", cell: ({ last, type, event }) => html`${eventLink(event, moment(last))} <span class="note">${type}</span>` },
        { head: "Last verdict", cell: ({ verdict, verdict_event, verdict_at }) => verdict && html`${mark(verdict)} ${eventLink(verdict_event, moment(verdict_at))}` },
        { head: "Events", cell: ({ events }) => count(events) },
        { head: "Denied", cell: ({ denied }) => (denied ? count(denied) : "") },
        { head: "Fallbacks", cell: ({ fallbacks, fallback_why }) => (fallbacks ? html`${count(fallbacks)} <span class="note">${fallback_why}</span>` : "") },
        { head: "By", cell: ({ by }) => by },
        { head: "Not covered", cell: ({ uncovered = 0, gaps = 0 }) => (uncovered ? html`<span class="mark" data-word="failed">! ${count(uncovered)} calls</span> <span class="note">in ${count(gaps)} ${gaps === 1 ? "session" : "sessions"}</span>` : "") },
      ],
      rows: agents,
      key: ({ agent, version }) => `${agent} ${version}`,
    })}`;
}

const SESSION_COLUMNS = [
  { head: "Session", name: true, cell: ({ id, source, host }) => html`<a href=${addressOf("sessions", id, { source, host })}>${id}</a>` },
  { head: "Agent", cell: ({ source }) => source },
  { head: "Last event", cell: ({ last, last_type }) => html`${ago(last)} <span class="note">${last_type}</span>` },
  { head: "Denied", cell: ({ denied }) => (denied ? count(denied) : "") },
];
