// An event with everything that it caused: its verdict, where the time went, its deliveries, its parents and children.

import { ask, tell } from "../lib/ask.js";
import { html, nothing, svg } from "../lib/html.js";
import { addressOf } from "../lib/page.js";
import { count, eventLink, facts, mark, millis, moment, problem, short, summary, table } from "../lib/parts.js";

const OPEN = new Set(["ready", "running", "due"]);

export function open(page) {
  if (!page.param) {
    location.replace(addressOf("history"));
    return () => nothing;
  }
  const trace = page.resource(`v1/events/${encodeURIComponent(page.param)}`);
  const folds = { chart: page.fold(), parts: page.fold(), deliveries: page.fold(), related: page.fold() };
  page.every(3, () => (!trace.value || isOpen(trace.value)) && trace.reload());
  return () => html`${trace.value ? shown(page, trace.value, folds) : html`<h1>Event</h1>${trace.loading ? html`<p class="empty">Loading …</p>` : nothing}`}
    ${problem(trace.error)}`;
}

/** Whether more may come: a verdict, or the end of a delivery. */
function isOpen({ event, deliveries }) {
  return event.pending || event.verdict?.approval?.state === "waiting" || deliveries.some(({ state }) => OPEN.has(state));
}

/** Send an event to endpoints again, after a question that says to which. */
async function replay(page, { id }) {
  const path = `v1/events/${encodeURIComponent(id)}/replay`;
  const would = await page.act(path, { dry_run: true }, "");
  if (!would) return;
  const names = Object.keys(would.endpoints);
  if (!would.matching) {
    await tell({ title: "No endpoint gets this event", text: "No endpoint that is in force on the gateway's machine matches it now." });
    return;
  }
  const endpoint = await ask({
    title: "Send this event again?",
    text: "As a new delivery: a receiver that does not look at the event's id takes it for a new event.",
    choice: { label: "To", options: [["", names.length === 1 ? names[0] : `all ${count(names.length)} that match it now`], ...(names.length === 1 ? [] : names.map((name) => [name, name]))] },
    yes: "Send again",
  });
  if (endpoint === null) return;
  const said = await page.act(path, { endpoint }, ({ matching }) => `${count(matching)} ${matching === 1 ? "delivery is" : "deliveries are"} on the way.`);
  if (said) location.hash = addressOf("deliveries", "", { event: id });
}

function shown(page, { event, reports, waterfall, deliveries, dead, parents, children, complete }, folds) {
  const verdict = event.verdict;
  const parts = verdict?.parts ?? [];
  return html`
    <h1>${event.type}${event.tool ? ` · ${event.tool}` : ""} ${mark(event.pending ? "waiting" : event.decision)}</h1>
    <pre>${summary(event) || "(no input)"}</pre>
    ${verdict?.reason ? html`<p><strong>${verdict.reason}</strong>${verdict.instead ? ` Instead: ${verdict.instead}` : ""}</p>` : nothing}
    ${approval(verdict?.approval)}
    ${facts([
      ["Time", moment(event.time)],
      ["Agent", event.source],
      ["Host", event.host],
      ["Session", event.session && html`<a href=${addressOf("sessions", event.session, { source: event.source, host: event.host })}>${event.session}</a>`],
      ["Folder", event.cwd],
      ["Verdict after", verdict && millis(verdict.ms)],
      ["Hook sets", verdict?.version],
      ["No hook gave this answer", event.fallback || verdict?.fallback],
      ["Stop", verdict?.stop && html`<a href=${addressOf("stop")}>${verdict.stop}</a>`],
      ["Event", html`<code>${event.id}</code>`],
    ])}
    ${reports.map((report) => html`<p class="problem">The agent reported at ${moment(report.ms)} that it used its fallback: ${report.why}. What it did may differ from this verdict.</p>`)}
    ${[...(verdict?.notes ?? []), ...(verdict?.lost ?? []).map((text) => `Not carried by the agent's protocol: ${text}`)].map((text) => html`<p class="note">${text}</p>`)}

    ${page.may("operate") && !event.pending ? html`<p><button type="button" @click=${() => replay(page, event)}>Send to endpoints again …</button></p>` : nothing}

    <h2>Where the time went</h2>
    ${chart(waterfall, folds.chart)}

    ${parts.length
      ? html`<h2>Decision</h2>${table({ caption: "The hooks that took part, in order", columns: PARTS, rows: parts, key: (part) => part.hook, fold: folds.parts })}`
      : nothing}
    ${verdict?.contexts?.length ? html`<h2>Told to the model</h2>${verdict.contexts.map((text) => html`<pre>${text}</pre>`)}` : nothing}
    ${payload("Input", event.input)} ${payload("Changed input", verdict?.updated_input)} ${payload("Output", event.output)} ${payload("Changed output", verdict?.updated_output)} ${payload("Changed permissions", verdict?.permissions)} ${payload("Data", event.data)}

    ${deliveries.length || dead.length
      ? html`<h2>Deliveries</h2>${table({ caption: "Deliveries of this event", columns: DELIVERIES, rows: deliveries, key: ({ id }) => id, fold: folds.deliveries, empty: "No delivery." })}
          ${dead.map((letter) => html`<p class="problem">Given up: ${letter.reason}</p>`)}`
      : nothing}
    ${parents.length || children.length
      ? html`<h2>Related</h2>${table({ caption: "Events above and below this one", columns: RELATED, rows: [...parents.map((one) => ({ ...one, side: "above" })), ...children.map((one) => ({ ...one, side: "below" }))], key: ({ id }) => id, fold: folds.related })}
          ${complete ? nothing : html`<p class="note">The search for children ended early; there may be more.</p>`}`
      : nothing}`;
}

function approval(given) {
  if (!given) return nothing;
  if (given.state === "waiting") return html`<p><a href=${addressOf("inbox")}>A question about this call waits for an answer.</a></p>`;
  const by = given.by ? ` by ${given.by}` : "";
  return html`<p>Held: ${mark(given.state.replaceAll("_", " "))}${by}${given.ticket ? ", for an earlier call that was the same" : ""}${given.comment ? html`: “${given.comment}”` : nothing}</p>`;
}

/** The waterfall: a row for each part, with its bar on the common axis. The bars repeat what the columns say. */
function chart(spans, fold) {
  if (!spans.length) return html`<p class="empty">Nothing is recorded yet.</p>`;
  const whole = Math.max(...spans.map(({ start, ms }) => start + ms), 0.001);
  return table({
    caption: `${millis(whole)} in all. Solid: work; pale: waiting; hatched: unexplained`,
    key: (_, place) => place,
    rows: spans,
    fold,
    columns: [
      { head: "Part", name: true, cell: (span) => html`<span class="depth" data-depth=${Math.min(span.depth, 3)}>${span.name}</span>` },
      { head: "Begins", cell: ({ start }) => (start ? millis(start) : "0 ms") },
      { head: "Takes", cell: ({ ms }) => millis(ms) || "0 ms" },
      { head: "Time line", cell: (span) => bar(span, whole) },
      { head: "Outcome", cell: ({ decision }) => mark(decision) },
      { head: "Note", cell: ({ note }) => html`<span class="note">${note}</span>` },
    ],
  });
}

function bar({ start, ms, kind, decision }, whole) {
  const left = Math.min((100 * start) / whole, 99);
  const width = Math.max((100 * ms) / whole, 0.7);
  return html`<svg class="bar" aria-hidden="true" viewBox="0 0 100 10" preserveAspectRatio="none">
    ${svg`<line x1="0" y1="9.5" x2="100" y2="9.5"></line><rect x=${left} y="1" width=${Math.min(width, 100 - left)} height="7" data-kind=${kind} data-word=${decision}></rect>`}
  </svg>`;
}

function payload(title, value) {
  const empty = value === undefined || value === null || value === "" || (typeof value === "object" && !Object.keys(value).length);
  if (empty) return nothing;
  return html`<details><summary>${title}</summary><pre>${typeof value === "string" ? value : JSON.stringify(value, null, 2)}</pre></details>`;
}

// What a hook that asks a model used.
function modelText({ name, cached, requests = 0, input_tokens = 0, output_tokens = 0, cost, currency }) {
  if (cached) return `Model ${name}: remembered from the same question.`;
  const price = cost === undefined || cost === null ? "" : `, ${cost.toFixed(6)} ${currency}`;
  return `Model ${name}: ${count(requests)} requests, ${count(input_tokens)} tokens in, ${count(output_tokens)} out${price}.`;
}

const PARTS = [
  { head: "Hook", name: true, cell: ({ hook }) => hook },
  { head: "Decision", cell: ({ decision }) => mark(decision) },
  { head: "Took", cell: ({ ms }) => millis(ms ?? 0) },
  { head: "Layer", cell: ({ layer = "", version }) => (version ? `${layer}@${version}` : layer) },
  { head: "Why", cell: ({ reason = "", fallback, output, model }) => html`${fallback ? html`<strong>The hook failed: ${fallback}.</strong> ` : nothing}${reason}${model ? html` <span class="note">${modelText(model)}</span>` : nothing}${output ? html`<pre>${output}</pre>` : nothing}` },
  { head: "Defined in", cell: ({ origin }) => (origin ? html`<code>${origin}</code>` : nothing) },
];

const DELIVERIES = [
  { head: "Target", name: true, cell: ({ id, target }) => html`<a href=${addressOf("deliveries", id)}>${target}</a>` },
  { head: "State", cell: ({ state }) => mark(state) },
  { head: "Attempts", cell: ({ attempts }) => count(attempts) },
  { head: "Last status", cell: ({ log = [] }) => log.at(-1)?.status || "" },
  { head: "Updated", cell: ({ updated }) => moment(updated) },
  { head: "Reason", cell: ({ reason }) => reason ?? "" },
];

const RELATED = [
  { head: "Event", name: true, cell: ({ id, type }) => eventLink(id, type || short(id)) },
  { head: "Place", cell: ({ side, depth }) => `${count(depth)} ${side}` },
  { head: "Verdict", cell: ({ decision }) => mark(decision) },
  { head: "Tool", cell: ({ tool }) => tool },
  { head: "Agent", cell: ({ source }) => source },
  { head: "Time", cell: ({ ms }) => moment(ms) },
];
