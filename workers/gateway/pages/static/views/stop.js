// One stop for all agents, or for those that a condition names: what is in force, and who stopped and resumed.

import { html, nothing } from "../lib/html.js";
import { count, moment, problem, table } from "../lib/parts.js";

export function open(page) {
  const stops = page.resource("v1/stop", { every: 5 });
  const [fold, historyFold] = [page.fold(), page.fold()];
  page.feed({ events: "fleet:*" }, () => stops.reload());

  async function stop(event) {
    event.preventDefault();
    const form = event.target;
    const said = await page.act("v1/stop", { where: form.elements.where.value.trim(), reason: form.elements.reason.value.trim() }, ({ where }) =>
      where ? "Stopped: calls that fit the condition are denied from now on." : "Stopped: prompts, tool calls and permission questions are denied from now on.",
    );
    if (said) form.reset();
    stops.reload();
  }

  async function resume(ids) {
    await page.act("v1/resume", { ids }, ({ lifted }) => `${count(lifted.length)} ${lifted.length === 1 ? "stop" : "stops"} lifted; agents go on.`);
    stops.reload();
  }

  return () => {
    const found = stops.value?.stops ?? [];
    const operates = page.may("operate");
    return html`
      <h1>Stop</h1>
      ${problem(stops.error)}
      ${stops.value && !found.length ? html`<p>No stop is in force.</p>` : nothing}
      ${found.length
        ? html`${table({ caption: "Stops in force", columns: [...STOPS, ...(operates ? [{ head: "End", cell: ({ id }) => html`<button type="button" aria-label=${`Resume ${id}`} @click=${() => resume([id])}>Resume</button>` }] : [])], rows: found, key: ({ id }) => id, fold })}
            ${reach("Not reached yet", "These agents have running sessions; their next call is denied if it reaches the fleet.", stops.value.not_reached)}
            ${operates && found.length > 1 ? html`<p><button type="button" class="yes" @click=${() => resume([])}>Resume all</button></p>` : nothing}`
        : nothing}
      ${reach("A stop that was lifted is still kept by", "Their next call that reaches the fleet lifts it there.", stops.value?.kept)}
      ${operates
        ? html`<form class="stop-form" aria-labelledby="stop-title" @submit=${stop}>
            <h2 id="stop-title">Stop agents now</h2>
            <p>Prompts, tool calls and permission questions are denied, above every rule and approval, until somebody resumes. Agents are told the reason and to wait; sessions stay open.</p>
            <label>Reason, which the models read <input name="reason" maxlength="500" autocomplete="off"></label>
            <label>Only where (CEL; empty: every agent) <input name="where" autocomplete="off" spellcheck="false" placeholder='event.host == "build-7"'></label>
            <p><button class="danger">■ Stop</button></p>
          </form>`
        : html`<p class="note">You may look only; a token with the scope <code>operate</code> can stop and resume.</p>`}
      <h2>History</h2>
      ${table({ caption: "Stops and their ends, the newest first", columns: HISTORY, rows: stops.value?.history ?? [], key: ({ at, what }) => `${at}${what}`, fold: historyFold, empty: stops.loading ? "Loading …" : "Nobody has stopped anything yet." })}`;
  };
}

/** Agents on hosts, with what is said of them; nothing without agents. */
function reach(what, next, places = []) {
  return places.length ? html`<p class="problem"><strong>${what}: ${places.map(({ source, host }) => `${source} on ${host}`).join(", ")}.</strong> ${next}</p>` : nothing;
}

const STOPS = [
  { head: "Reason", name: true, cell: ({ reason }) => reason || "(no reason given)" },
  { head: "Where", cell: ({ where }) => (where ? html`<code>${where}</code>` : "every agent") },
  { head: "Since", cell: ({ at }) => moment(at) },
  { head: "By", cell: ({ by }) => by },
  { head: "Id", cell: ({ id }) => html`<code>${id}</code>` },
];

const HISTORY = [
  { head: "When", cell: ({ at }) => moment(at) },
  { head: "What", name: true, cell: ({ what }) => what },
  { head: "By", cell: ({ by }) => by },
  { head: "Where", cell: ({ where, what }) => (where ? html`<code>${where}</code>` : what === "stopped" ? "every agent" : nothing) },
  { head: "Reason", cell: ({ reason }) => reason ?? "" },
];
