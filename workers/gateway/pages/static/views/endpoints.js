// Where webhooks go: the health of each endpoint, how its deliveries went, and pause, resume and enable.

import { ask, tell } from "../lib/ask.js";
import { lookOnly } from "../lib/bulk.js";
import { html, nothing } from "../lib/html.js";
import { addressOf } from "../lib/page.js";
import { count, facts, listed, mark, millis, moment, problem } from "../lib/parts.js";
import { DELIVERY_COLUMNS } from "./deliveries.js";

export function open(page) {
  return page.param ? openEndpoint(page) : openList(page);
}

function openList(page) {
  const endpoints = page.list("v1/endpoints", { every: 5 });
  return () => html`
    <h1>Endpoints</h1>
    ${page.may("operate") ? nothing : lookOnly()}
    ${listed(endpoints, {
      caption: "Endpoints in force on the gateway's machine",
      columns: page.may("operate") ? [...COLUMNS, { head: "Do", cell: (endpoint) => actions(page, endpoint, endpoints.reload) }] : COLUMNS,
      key: ({ id }) => id,
      empty: "No endpoint is in force. `fleethook webhooks add URL` adds one.",
    })}`;
}

const COLUMNS = [
  { head: "Endpoint", name: true, cell: ({ id, url }) => html`<a href=${addressOf("endpoints", id)}>${id}</a> <code class="what note">${url}</code>` },
  { head: "State", cell: (endpoint) => standingOf(endpoint) },
  { head: "Success", cell: ({ figures }) => success(figures) },
  { head: "p99", cell: ({ figures }) => (figures.runs ? millis(figures.p99_ms) : "") },
  { head: "Open", cell: ({ open: waiting }) => (waiting ? count(waiting) : "") },
  { head: "Dead", cell: ({ id, dead }) => (dead ? html`<a href=${addressOf("dead", "", { endpoint: id })}><span class="mark" data-word="dead">✕ ${count(dead)}</span></a>` : "") },
  { head: "Last failure", cell: ({ last_failure: last }) => last && html`<a href=${addressOf("deliveries", last.delivery)}>${moment(last.ms)}</a> <span class="reason">${last.reason || last.status}</span>` },
];

/** Its state, why, and since when. */
function standingOf({ standing, health }) {
  if (standing === "active") return health.failures ? html`<span class="mark" data-word="failed">✕ failing</span> <span class="note">since ${moment(health.failing_since)}</span>` : mark("active");
  return html`${mark(WORDS[standing] ?? standing)}
    ${health.since ? html`<span class="note">since ${moment(health.since)}${health.by ? ` by ${health.by}` : ""}</span>` : nothing}
    ${health.reason ? html` <span class="reason">${health.reason}</span>` : nothing}
    ${health.next_probe ? html` <span class="note">next probe ${moment(health.next_probe)}</span>` : nothing}`;
}

const WORDS = { open: "breaker open" };

/** The share of attempts that were taken; an endpoint that took none is never shown with 100 %. */
function success({ runs, failed }) {
  if (!runs) return "";
  const percent = (100 * (runs - failed)) / runs;
  const shown = failed ? Math.min(99.9, Math.floor(percent * 10) / 10) : 100;
  return html`${shown} % <span class="note">of ${count(runs)} ${runs === 1 ? "attempt" : "attempts"}</span>`;
}

function actions(page, endpoint, reload) {
  const { id, standing } = endpoint;
  const act = async (verb, body, done) => {
    await page.act(`v1/endpoints/${encodeURIComponent(id)}/${verb}`, body, done);
    reload();
  };
  const pause = async () => {
    const reason = await ask({ title: `Pause ${id}?`, text: "Its deliveries wait until somebody resumes it.", yes: "Pause", field: "Reason" });
    if (reason !== null) act("pause", { reason }, `${id} is paused.`);
  };
  const enable = async () => {
    const yes = await ask({ title: `Enable ${id}?`, text: "It gets webhooks again, and the dead letters of the time in which it was disabled are tried again.", yes: "Enable" });
    if (yes !== null) act("enable", { recover: true }, ({ recovered, missed }) => `${id} is enabled. ${count(recovered)} dead letters are tried again; ${count(missed)} events were not sent to it.`);
  };
  const button = (word, work, kind = "") => html`<button type="button" class=${kind} @click=${work}>${word}<span class="visually-hidden"> ${id}</span></button>`;
  const main = { paused: () => button("Resume", () => act("resume", undefined, `${id} is resumed.`), "yes"), disabled: () => button("Enable", enable, "yes") }[standing];
  return html`<span class="line">${main ? main() : button("Pause", pause)} ${button("Test …", () => test(page, endpoint))}</span>`;
}

/** Send a test event to an endpoint, after a question, and show what it answered. */
async function test(page, { id, url, format }) {
  const pages = format === "pagerduty";
  const yes = await ask({
    title: `Send a test event to ${id}?`,
    text: pages ? "PagerDuty opens a real incident, which may page a person; it is resolved at once." : "The gateway's machine sends it now, signed as every webhook. It is neither recorded nor tried again.",
    content: html`<p><code>${url}</code></p>`,
    yes: "Send the test",
    danger: pages,
  });
  if (yes === null) return;
  page.announce(`Sending a test to ${id} …`);
  const said = await page.act(`v1/endpoints/${encodeURIComponent(id)}/test`, { opens_incident: pages }, ({ ok }) => (ok ? `${id} accepted the test.` : `${id} did not accept the test.`));
  if (!said) return;
  await tell({
    title: said.ok ? `${id} accepted the test` : `${id} did not accept the test`,
    text: said.error,
    content: html`${facts([
        ["Status", said.status || "none"],
        ["Took", millis(said.ms)],
        ["Incident resolved", said.resolved === null ? "" : said.resolved ? "yes" : "no"],
      ])}
      ${said.response ? html`<p class="note">The beginning of its answer:</p><pre tabindex="0">${said.response}</pre>` : nothing}`,
  });
}

function openEndpoint(page) {
  const endpoints = page.resource("v1/endpoints", { every: 5 });
  const deliveries = page.list("v1/deliveries", { query: { endpoint: page.param }, every: 5 });
  return () => {
    const endpoint = endpoints.value?.items.find(({ id }) => id === page.param);
    return html`
      <h1>Endpoint ${page.param}</h1>
      <p><a href=${addressOf("endpoints")}>All endpoints</a></p>
      ${problem(endpoints.error)}
      ${endpoint ? detail(page, endpoint, endpoints.reload) : endpoints.value ? html`<p class="note">No endpoint of this id is in force on the gateway's machine.</p>` : nothing}
      <h2>Deliveries</h2>
      ${listed(deliveries, { caption: "Its deliveries, the newest first", columns: DELIVERY_COLUMNS.filter(({ head }) => head !== "Target"), key: ({ id }) => id, empty: "Nothing was sent to it." })}`;
  };
}

function detail(page, endpoint, reload) {
  const { health, figures } = endpoint;
  const failures = Object.entries(figures.outcomes).filter(([outcome]) => outcome !== "2xx");
  return html`
    ${page.may("operate") ? html`<div class="line">${actions(page, endpoint, reload)}</div>` : lookOnly()}
    ${facts([
      ["URL", html`<code>${endpoint.url}</code>`],
      ["State", standingOf(endpoint)],
      ["Breaker", health.breaker],
      ["Success", success(figures)],
      ["Failures by kind", failures.map(([outcome, runs]) => `${outcome}: ${count(runs)}`).join(", ")],
      ["Failures in a row", health.failures ? html`${count(health.failures)} <span class="note">since ${moment(health.failing_since)}</span>` : ""],
      ["Median", figures.runs ? millis(figures.p50_ms) : ""],
      ["p99", figures.runs ? millis(figures.p99_ms) : ""],
      ["Waiting", health.parked ? count(health.parked) : ""],
      ["Not sent while disabled", health.missed ? count(health.missed) : ""],
      ["Last failure", endpoint.last_failure && html`<a href=${addressOf("deliveries", endpoint.last_failure.delivery)}>${moment(endpoint.last_failure.ms)}</a> ${endpoint.last_failure.reason}`],
      ["Events", [endpoint.events.join(", "), endpoint.tool && `[${endpoint.tool}]`].filter(Boolean).join(" ")],
      ["When", endpoint.when && html`<code>${endpoint.when}</code>`],
      ["Format", `${endpoint.format}${endpoint.payload === "thin" ? ", thin" : ""}`],
      ["Signed", endpoint.secret ? "yes" : "no"],
      ["Can block", endpoint.can_block ? "yes" : ""],
      ["Rate", endpoint.rate],
      ["Order", endpoint.order],
      ["Layer", [endpoint.layer, endpoint.version].filter(Boolean).join(" ")],
      ["From", endpoint.origin && html`<code>${endpoint.origin}</code>`],
    ])}
    <p><a href=${addressOf("dead", "", { endpoint: endpoint.id })}>Its dead letters</a></p>`;
}
