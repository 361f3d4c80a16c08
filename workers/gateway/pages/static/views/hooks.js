// The hooks in force: how often each ran, how that ended, how long it took; also by the plugin that brought them (G-22).

import { html, nothing } from "../lib/html.js";
import { addressOf } from "../lib/page.js";
import { count, facts, filters, mark, millis, moment, problem, table } from "../lib/parts.js";

const FIELDS = [
  { name: "text", label: "Hook, event or file", placeholder: "lint" },
  { name: "layer", label: "Layer", options: [["", "any"], "fleet", "user", "project", "session"] },
  { name: "kind", label: "Kind", options: [["", "any"], "rule", "command", "http", "prompt", "agent", "plugin"] },
  { name: "ran", label: "Runs", options: [["", "any"], ["yes", "has run"], ["failed", "has failed"], ["no", "never ran"]] },
  { name: "order", label: "Order", options: [["", "as they run"], ["runs", "most runs"], ["p99", "slowest"], ["failed", "most failures"]] },
];

const MOST_TOOL = 60; // characters in the list; a tool can be a long regular expression

const ORDERS = {
  runs: ({ figures }) => figures.runs,
  p99: ({ figures }) => figures.p99_ms ?? -1,
  failed: ({ figures }) => figures.failed,
};

export function open(page) {
  const hooks = page.resource("v1/hooks", { every: 10 });
  if (page.param) return () => oneHook(page.param, hooks);
  const [fold, pluginFold] = [page.fold(), page.fold()];
  return () => {
    const all = hooks.value?.items ?? [];
    const shown = ordered(all.filter((hook) => fits(hook, page.query)), page.query.order);
    return html`
      <h1>Hooks</h1>
      ${problem(hooks.error)}
      ${filters(page, FIELDS, () => page.redraw())}
      ${hooks.value
        ? table({
            caption: `${shown.length === all.length ? count(all.length) : `${count(shown.length)} of ${count(all.length)}`} hooks in force on the gateway's machine; counts and times are those of the whole fleet`,
            columns: COLUMNS,
            rows: shown,
            key: ({ id, layer }) => `${layer} ${id}`,
            fold,
            empty: all.length ? "No hook fits." : "No hook is in force. `fleethook hooks new` makes one.",
          })
        : hooks.error ? nothing : html`<p class="empty">Loading …</p>`}
      ${pluginsOf(all, pluginFold)}`;
  };
}

const COLUMNS = [
  { head: "Hook", name: true, cell: ({ id, enabled }) => html`<a href=${addressOf("hooks", id)}>${id}</a>${enabled ? nothing : html` <span class="note">off</span>`}` },
  { head: "On", cell: ({ on, tool }) => html`<span class="what">${on.join(", ")}${tool ? ` [${tool.length > MOST_TOOL ? `${tool.slice(0, MOST_TOOL)}…` : tool}]` : ""}</span>` },
  { head: "Kind", cell: (hook) => `${hook.kind}, ${waits(hook)}` },
  { head: "Layer", cell: ({ layer, version }) => (layer === "fleet" && version ? `fleet@${version}` : layer) },
  { head: "Runs", cell: ({ figures }) => (figures.runs ? count(figures.runs) : "") },
  { head: "Failed", cell: ({ figures }) => failed(figures) },
  { head: "Median", cell: ({ figures }) => time(figures.p50_ms) },
  { head: "p99", cell: ({ figures }) => time(figures.p99_ms) },
  { head: "Last run", cell: ({ last_run }) => last_run && html`${mark(last_run.what)} ${moment(last_run.ms)}` },
];

/** A time in words. The first bucket of the histograms ends at 0.5 ms, so shorter times are not known exactly. */
function time(ms) {
  return ms === null || ms === undefined ? "" : ms <= 0.5 ? "< 0.5 ms" : millis(ms);
}

function failed({ runs, failed: failures }) {
  return failures ? html`<span class="mark" data-word="failed">✕ ${count(failures)}</span> <span class="note">${share(failures, runs)}</span>` : "";
}

/** A share in percent; what is not zero is never shown as 0 %. */
function share(part, whole) {
  const percent = (100 * part) / whole;
  return percent < 0.1 ? "< 0.1 %" : `${Number(percent.toPrecision(2))} %`;
}

function waits({ observe, blocking, enabled }) {
  return !enabled ? "off" : observe ? "observes" : blocking ? "blocking" : "in the background";
}

function fits(hook, { text = "", layer = "", kind = "", ran = "" }) {
  const words = [hook.id, hook.description, hook.origin, hook.tool, hook.plugin, ...hook.on].join(" ").toLowerCase();
  const { runs, failed: failures } = hook.figures;
  return (
    words.includes(text.toLowerCase()) &&
    (!layer || hook.layer === layer) &&
    (!kind || hook.kind === kind) &&
    (!ran || (ran === "yes" ? runs > 0 : ran === "no" ? runs === 0 : failures > 0))
  );
}

function ordered(hooks, order) {
  const value = ORDERS[order];
  return value ? [...hooks].sort((one, other) => value(other) - value(one)) : hooks;
}

/** The hooks of each plugin together. */
function pluginsOf(hooks, fold) {
  const plugins = new Map();
  for (const { plugin, figures } of hooks) {
    if (!plugin) continue;
    const row = plugins.get(plugin) ?? { plugin, hooks: 0, runs: 0, failed: 0, total_ms: 0, p99_ms: 0 };
    row.hooks++;
    row.runs += figures.runs;
    row.failed += figures.failed;
    row.total_ms += figures.runs * figures.mean_ms;
    row.p99_ms = Math.max(row.p99_ms, figures.p99_ms ?? 0);
    plugins.set(plugin, row);
  }
  return plugins.size
    ? html`<h2>Plugins</h2>${table({
        caption: "The hooks of each plugin together",
        columns: [
          { head: "Plugin", name: true, cell: ({ plugin }) => plugin },
          { head: "Hooks", cell: (row) => count(row.hooks) },
          { head: "Runs", cell: ({ runs }) => (runs ? count(runs) : "") },
          { head: "Failed", cell: failed },
          { head: "Mean", cell: ({ runs, total_ms }) => (runs ? millis(total_ms / runs) : "") },
          { head: "Slowest p99", cell: ({ runs, p99_ms }) => (runs ? time(p99_ms) : "") },
        ],
        rows: [...plugins.values()],
        key: ({ plugin }) => plugin,
        fold,
      })}`
    : nothing;
}

function oneHook(id, hooks) {
  const found = (hooks.value?.items ?? []).filter((hook) => hook.id === id);
  return html`
    <h1>Hook ${id}</h1>
    <p><a href=${addressOf("hooks")}>All hooks</a></p>
    ${problem(hooks.error)}
    ${hooks.value && !found.length ? html`<p class="note">No hook of this id is in force on the gateway's machine.</p>` : nothing}
    ${found.map(hookDetail)}`;
}

function hookDetail(hook) {
  const { figures } = hook;
  const outcomes = Object.entries(figures.outcomes).map(([outcome, runs]) => ({ outcome, runs }));
  const content = hook.command || hook.http || hook.rule || hook.handler;
  return html`
    ${hook.description ? html`<p>${hook.description}</p>` : nothing}
    ${facts([
      ["On", [hook.on.join(", "), hook.tool && `[${hook.tool}]`].filter(Boolean).join(" ")],
      ["When", hook.when && html`<code>${hook.when}</code>`],
      ["Kind", `${hook.kind}, ${waits(hook)}`],
      ["Layer", [hook.layer, hook.version].filter(Boolean).join(" ")],
      ["From", hook.origin && html`<code>${hook.origin}</code>`],
      ["Written for", hook.dialect],
      ["Plugin", hook.plugin],
      ["Priority", hook.priority],
      ["Timeout", hook.timeout ? `${hook.timeout} s` : ""],
      ["If it fails", hook.on_failure],
      ["Last run", hook.last_run && html`${mark(hook.last_run.what)} ${moment(hook.last_run.ms)}`],
      ["Runs", count(figures.runs)],
      ["Failed", failed(figures)],
      ["Mean", figures.runs ? millis(figures.mean_ms) : ""],
      ["Median", time(figures.p50_ms)],
      ["p99", time(figures.p99_ms)],
    ])}
    ${outcomes.length
      ? table({
          caption: "How its runs ended",
          columns: [
            { head: "Outcome", name: true, cell: ({ outcome }) => (outcome === "silent" ? html`<span class="note">did not fit</span>` : mark(outcome)) },
            { head: "Runs", cell: ({ runs }) => html`${count(runs)} <span class="note">${share(runs, figures.runs)}</span>` },
          ],
          rows: outcomes,
          key: ({ outcome }) => outcome,
        })
      : html`<p class="empty">It has not run yet.</p>`}
    <h2>What it runs</h2>
    <pre tabindex="0">${typeof content === "string" ? content : JSON.stringify(content, undefined, 2)}</pre>
    ${hook.blocking ? nothing : html`<p><a href=${addressOf("deliveries", "", { target: `hook:${hook.id}` })}>Its deliveries</a></p>`}`;
}
