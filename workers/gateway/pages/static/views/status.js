// The fleet: problems, processes, streams, queues, and plots of rates and latencies.

import { html, nothing } from "../lib/html.js";
import { count, facts, mark, problem, span, table } from "../lib/parts.js";
import { Plot } from "../lib/plot.js";
import { SECONDS, quantile, rate, sampler, samples, startSampling } from "../lib/samples.js";

const BACK = 6; // samples over which a latency is taken: half a minute

const PLOTS = [
  {
    title: "Verdicts per second",
    unit: "/s",
    least: 0.5,
    lines: [
      { label: "allow", ink: "good" },
      { label: "deny", ink: "bad" },
      { label: "ask", ink: "ask" },
      { label: "abstain", ink: "soft" },
    ],
    read: (number, line) => (number ? rate(samples[number - 1], samples[number], ({ verdicts }) => verdicts[line.label]) : null),
  },
  {
    title: "Time to a verdict",
    unit: " ms",
    lines: [
      { label: "p50", ink: "link", part: 0.5 },
      { label: "p95", ink: "wait", part: 0.95 },
      { label: "p99", ink: "bad", part: 0.99 },
    ],
    read: (number, { part }) => (number ? quantile(samples[Math.max(0, number - BACK)], samples[number], part) : null),
  },
  {
    title: "Deliveries per second",
    unit: "/s",
    least: 0.5,
    lines: [
      { label: "delivered", ink: "good" },
      { label: "retry", ink: "wait" },
      { label: "dead", ink: "bad" },
    ],
    read: (number, line) => (number ? rate(samples[number - 1], samples[number], ({ deliveries }) => deliveries[line.label]) : null),
  },
  {
    title: "What waits",
    unit: "",
    least: 5,
    lines: [
      { label: "unread entries", ink: "link" },
      { label: "under way", ink: "soft" },
      { label: "due later", ink: "wait" },
      { label: "dead letters", ink: "bad" },
    ],
    read: (number, { label }) => ({ "unread entries": samples[number].lag, "under way": samples[number].pending, "due later": samples[number].due, "dead letters": samples[number].dead })[label],
  },
];

export function open(page) {
  const status = page.resource("admin/status", { every: SECONDS });
  const plots = PLOTS.map((given) => ({ ...given, plot: new Plot(given) }));
  const fold = page.fold();
  let failure = null;

  function draw() {
    failure = null;
    if (!samples.length) return;
    const times = samples.map(({ at }) => at);
    for (const { plot, lines, read } of plots) plot.show(times, lines.map((line) => samples.map((_, number) => read(number, line))));
  }
  const failed = ({ detail }) => {
    failure = detail;
    page.redraw();
  };
  sampler.addEventListener("sample", draw);
  sampler.addEventListener("failed", failed);
  page.onClose(() => {
    sampler.removeEventListener("sample", draw);
    sampler.removeEventListener("failed", failed);
    for (const { plot } of plots) plot.close();
  });
  startSampling();
  setTimeout(draw); // once the elements are in the document

  return () => html`
    <h1>Status</h1>
    ${problem(status.error)}
    ${status.value ? troubles(status.value) : nothing}
    <h2>Rates and latencies</h2>
    ${problem(failure)}
    <p class="note">Sampled every ${SECONDS} seconds while this page is open. <code>/metrics</code> has the same for Prometheus.</p>
    <div class="plots">${plots.map(({ plot }) => plot.element)}</div>
    ${status.value ? shown(status.value, fold) : html`<p class="empty">Loading …</p>`}`;
}

function troubles({ fleet }) {
  const found = [...fleet.problems, ...(fleet.unguarded ? [fleet.unguarded] : [])];
  return found.length
    ? html`<ul class="problem">${found.map((text) => html`<li>${text}</li>`)}</ul>`
    : html`<p>${mark("ok")} No problem is known.</p>`;
}

function shown({ version, uptime, hook_sets: sets, fleet, queues, plugins, live_clients: clients }, fold) {
  return html`
    ${facts([
      ["Version", version],
      ["Namespace", fleet.namespace],
      ["Server", [fleet.server.brand, fleet.server.version].filter(Boolean).join(" ") || fleet.server.url],
      ["Round trip", `${fleet.server.ms.toFixed(2)} ms`],
      ["Memory of the server", fleet.server.memory ? `${count(Math.round(fleet.server.memory / 2 ** 20))} MiB` : ""],
      ["Hook sets", sets],
      ["This gateway runs for", span(uptime * 1000)],
      ["Clients of its feed", count(clients)],
      ["Deliveries due later", count(fleet.due)],
      ["Parked", fleet.parked === null ? "" : count(fleet.parked)],
      ["Dead letters", count(fleet.dead)],
      ["Plugins", plugins.length ? count(plugins.length) : ""],
    ])}
    <h2>Processes</h2>
    ${table({ caption: "Process types of the fleet", columns: ROLES, rows: fleet.roles, key: ({ role }) => role })}
    <h2>Streams</h2>
    ${table({ caption: "Streams and the groups that read them", columns: STREAMS, rows: fleet.streams, key: ({ name, group }) => `${name} ${group}`, fold })}
    <h2>Queues</h2>
    ${table({ caption: "Jobs of RQ", columns: QUEUES, rows: queues, key: ({ queue }) => queue, empty: "No queue." })}`;
}

const MOST_NAMES = 20;

/** Names of processes: of a large fleet the first ones, and how many more there are. */
function named(who) {
  const more = who.length - MOST_NAMES;
  return `${who.slice(0, MOST_NAMES).join(", ")}${more > 0 ? ` and ${count(more)} more` : ""}`;
}

const ROLES = [
  { head: "Type", name: true, cell: ({ role }) => role },
  { head: "State", cell: ({ health }) => mark(health) },
  { head: "Alive", cell: ({ alive }) => (alive === null || alive === undefined ? "" : count(alive)) },
  { head: "Which", cell: ({ who }) => html`<span class="note">${named(who)}</span>` },
];

const STREAMS = [
  { head: "Stream", name: true, cell: ({ name }) => name },
  { head: "Group", cell: ({ group }) => group },
  { head: "Entries", cell: ({ length }) => count(length) },
  { head: "Unread", cell: ({ lag }) => (lag === null || lag === undefined ? "" : count(lag)) },
  { head: "Under way", cell: ({ group, pending }) => (group ? count(pending) : "") },
  { head: "Oldest", cell: ({ oldest_ms: oldest }) => (oldest ? span(oldest) : "") },
];

const QUEUES = [
  { head: "Queue", name: true, cell: ({ queue }) => queue },
  { head: "Jobs", cell: ({ jobs }) => Object.entries(jobs).map(([state, number]) => `${count(number)} ${state}`).join(", ") },
];
