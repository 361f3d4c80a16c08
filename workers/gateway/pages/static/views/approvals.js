// The history of held calls: what was asked, who answered, and how it ended. The inbox answers those that wait.

import { callOf } from "../lib/call.js";
import { html, nothing } from "../lib/html.js";
import { addressOf } from "../lib/page.js";
import { eventLink, facts, filters, listed, mark, moment, problem, short, span, table } from "../lib/parts.js";
import { proposeToRemember, remember } from "../lib/remember.js";
import { sessionLink } from "./history.js";

const STATES = {
  waiting: "waiting",
  approved: "approved",
  denied: "denied",
  timed_out: "timed out",
  nobody_could_be_asked: "nobody could be asked",
  overtaken: "overtaken",
};

const FIELDS = [
  { name: "state", label: "State", options: [["", "any"], ...Object.entries(STATES)] },
  { name: "session", label: "Session" },
  { name: "source", label: "Agent", placeholder: "claude" },
  { name: "host", label: "Host" },
  { name: "tool", label: "Tool", placeholder: "bash" },
];

export function open(page) {
  return page.param ? openQuestion(page) : openList(page);
}

function openList(page) {
  const questions = page.list("v1/approvals", { query: () => page.query, every: 5 });
  return () => html`
    <h1>Approvals</h1>
    <p class="note">Held calls and their answers. Those that wait are answered in the <a href=${addressOf("inbox")}>inbox</a>.</p>
    ${filters(page, FIELDS, questions.reload)}
    ${listed(questions, {
      caption: "Held calls, the newest first",
      columns: COLUMNS,
      key: ({ id }) => id,
      empty: "No call was held. A rule with `hold:` holds its `ask`.",
    })}`;
}

const COLUMNS = [
  { head: "Asked", cell: ({ id, asked }) => html`<a href=${addressOf("approvals", id)}>${moment(asked)}</a>` },
  { head: "State", cell: ({ state }) => stateOf(state) },
  { head: "Call", name: true, cell: ({ tool, summary }) => html`${tool} <code class="what">${summary}</code>` },
  { head: "By", cell: (question) => answeredBy(question) },
  { head: "After", cell: ({ asked, answered }) => (answered ? span(answered - asked) : "") },
  { head: "Reason", cell: ({ reason }) => reason && html`<span class="reason">${reason}</span>` },
  { head: "Session", cell: (question) => sessionLink(question) },
  { head: "Agent", cell: ({ source, host }) => [source, host].filter(Boolean).join(" on ") },
];

function stateOf(state) {
  return mark(STATES[state] ?? state);
}

/** Who answered; silence is never shown as a person's answer. */
function answeredBy({ state, by = "", via = "", approved_by: approved = [] }) {
  if (by) return html`${by}${via === "link" ? "" : html` <span class="note">${via}</span>`}`;
  if (approved.length && state === "waiting") return html`<span class="note">approved so far by ${approved.join(", ")}</span>`;
  return state === "waiting" ? "" : html`<span class="note">nobody</span>`;
}

function openQuestion(page) {
  const found = page.resource(`v1/approvals/${encodeURIComponent(page.param)}`, { every: 5 });
  return () => html`
    <h1>Held call ${short(page.param)}</h1>
    <p><a href=${addressOf("approvals")}>All held calls</a></p>
    ${problem(found.error)}
    ${found.value ? detail(page, found.value) : nothing}`;
}

function detail(page, question) {
  const keep = async () => {
    if (await proposeToRemember(page, question.id, "Remember")) await remember(page, question.id);
  };
  return html`
    <div class="line">${stateOf(question.state)} ${question.state === "waiting" ? html`<a href=${addressOf("inbox")}>Answer it in the inbox</a>` : nothing}</div>
    ${question.state === "approved" && !question.has_secret && page.may("operate") ? html`<p><button type="button" @click=${keep}>Remember …</button></p>` : nothing}
    ${callOf(question, true)}
    ${facts([
      ["Event", eventLink(question.id, question.id)],
      ["Tool", question.tool],
      ["Reason", question.reason],
      ["Session", sessionLink(question)],
      ["Agent", [question.source, question.host].filter(Boolean).join(" on ")],
      ["Folder", question.cwd && html`<code>${question.cwd}</code>`],
      ["Asked", moment(question.asked)],
      ["The agent waits until", moment(question.due)],
      ["Ends without an answer", moment(question.ends)],
      ["Then", question.default],
      ["Answered", moment(question.answered)],
      ["By", answeredBy(question)],
      ["Comment", question.comment],
      ["Approved so far by", (question.approved_by ?? []).join(", ")],
    ])}
    ${table({
      caption: "The hooks that ask",
      columns: [
        { head: "Hook", name: true, cell: ({ hook }) => html`<a href=${addressOf("hooks", hook)}>${hook}</a>` },
        { head: "Reason", cell: ({ reason = "" }) => reason },
        { head: "Layer", cell: ({ layer = "", version = "" }) => [layer, version].filter(Boolean).join(" ") },
        { head: "From", cell: ({ origin = "" }) => origin && html`<code>${origin}</code>` },
        { head: "Group", cell: ({ group = "" }) => group },
      ],
      rows: question.rules ?? [],
      key: ({ hook }) => hook,
      empty: "None is recorded.",
    })}`;
}
