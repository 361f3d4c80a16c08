// What waits for a person: held calls, which are answered here, and agents' own prompts and notifications.
//
// A card stays in its place after its question has ended, and new ones come below: what a person looks at does not move away.

import { get } from "../lib/api.js";
import { callOf, isCut } from "../lib/call.js";
import { html, nothing, repeat } from "../lib/html.js";
import { addressOf } from "../lib/page.js";
import { ago, count, eventLink, facts, left, mark, moment, problem, table } from "../lib/parts.js";
import { proposeToRemember, remember } from "../lib/remember.js";

const EVENTS = "approval:*,permission:*,notification,session:*,user:prompt_submit";
const ENDS = ["approval:answered", "approval:ended"];
const REFRESH_SECONDS = 5;
const REREAD_MS = 20_000;
const LATE_MS = 2_000;
const SOON_MS = 100;
const LEAST_MS = 1_000; // between two readings, however many events come
const MOST_CARDS = 20;
const MOST_SUMMARY = 200; // characters in the list of what was decided
const HURRY_MS = 30_000;

export function open(page) {
  const inbox = page.resource("v1/inbox", { every: REFRESH_SECONDS });
  const decided = page.list("v1/approvals", { query: { state: ["approved", "denied", "timed_out", "nobody_could_be_asked", "overtaken"], limit: 20 } });
  const others = page.fold();
  const cards = new Map(); // by event, in the order in which they came: {id, item, number, question, read, whole, busy, gone}
  let most = MOST_CARDS;
  let cameBefore = 0;
  let due = 0;
  let last = 0;
  let anyEnded = false; // whether a question has ended since the last reading

  const reload = () => {
    due ||= setTimeout(() => {
      due = 0;
      last = Date.now();
      if (anyEnded) decided.reload();
      anyEnded = false;
      inbox.reload();
    }, Math.max(SOON_MS, last + LEAST_MS - Date.now()));
  };
  page.onClose(() => clearTimeout(due));
  page.feed({ events: EVENTS }, (message) => {
    const card = cards.get(message.event?.data?.question);
    if (card) card.read = 0;
    anyEnded ||= ENDS.includes(message.event?.type) || message.kind === "position";
    reload();
  });
  page.every(1, () => page.redraw()); // the times that are left

  /** Bring the cards up to date with the inbox, and read the questions of those that are shown. */
  function follow() {
    const waiting = new Map((inbox.value?.items ?? []).filter(({ kind }) => kind === "question").map((item) => [item.event, item]));
    for (const [id, item] of waiting) if (!cards.has(id)) cards.set(id, { id, item, number: ++cameBefore, question: undefined, read: 0, whole: false, busy: false, gone: false });
    const now = Date.now();
    for (const card of shown()) {
      const { question, read, gone } = card;
      if (gone || (question && question.state !== "waiting")) continue;
      const late = !waiting.has(card.id) || (question?.agent_waits && now > question.due);
      if (now - read > (late ? LATE_MS : REREAD_MS)) look(card);
    }
  }

  const shown = () => [...cards.values()].slice(0, most);
  const hasEnded = ({ question, gone }) => gone || (question && question.state !== "waiting");

  async function look(card) {
    card.read = Date.now();
    try {
      const found = await get(`v1/approvals/${encodeURIComponent(card.id)}`);
      // The input leaves the question with its end; the card keeps what the person has read.
      card.question = { ...found, input: found.input ?? card.question?.input ?? null };
    } catch (error) {
      card.gone = error.status === 404;
    }
    page.redraw();
  }

  async function answer(event, card) {
    event.preventDefault();
    const verb = event.submitter.value;
    const comment = event.target.elements.comment.value.trim();
    if (card.busy) return;
    if (verb !== "deny" && isCut(card.question) && !card.whole) {
      card.whole = true;
      page.announce("Now all of it is shown. Read it, and answer then.");
      return page.redraw();
    }
    card.busy = true;
    page.redraw();
    if (verb !== "remember" || (await proposeToRemember(page, card.id, "Approve and remember"))) await send(card, verb, comment);
    card.busy = false;
    await look(card);
    if (hasEnded(card)) focusOutcome(card);
    anyEnded = true;
    reload();
  }

  async function send(card, verb, comment) {
    const said = await page.act(`v1/approvals/${encodeURIComponent(card.id)}/${verb === "deny" ? "deny" : "approve"}`, { comment }, (result) => outcome(verb, result));
    if (said?.state === "approved" && verb === "remember") await remember(page, card.id);
  }

  /** The buttons are gone, and the focus with them: it goes to what came of the answer, not to another question's buttons. */
  function focusOutcome({ id }) {
    page.afterDraw(() => document.getElementById(`outcome-${id}`)?.focus({ preventScroll: true }));
  }

  function clear() {
    for (const card of [...cards.values()]) if (hasEnded(card)) cards.delete(card.id);
    page.redraw();
    document.getElementById("main").focus({ preventScroll: true });
  }

  return () => {
    follow();
    const items = inbox.value?.items ?? [];
    const prompts = items.filter(({ kind }) => kind !== "question");
    const ended = [...cards.values()].filter(hasEnded).length;
    const waiting = cards.size - ended;
    return html`
      <h1>Inbox</h1>
      ${problem(inbox.error)}
      <p class="visually-hidden" role="status">${waiting ? `${count(waiting)} ${waiting === 1 ? "call waits" : "calls wait"} for an answer.` : ""}</p>
      ${inbox.value && !items.length && !cards.size ? html`<p class="empty">Nobody is waited for. A hook that says <code>ask</code> with <code>hold</code> brings its questions here.</p>` : nothing}
      ${cards.size ? html`<h2>Held calls, the oldest first</h2>` : nothing}
      ${repeat(shown(), ({ id }) => id, (card) => (hasEnded(card) ? endedCard(card) : openCard(page, card, answer)))}
      ${ended ? html`<p class="line"><button type="button" @click=${clear}>Clear ${count(ended)} that ${ended === 1 ? "has" : "have"} ended</button></p>` : nothing}
      ${cards.size > most ? html`<p class="line"><button type="button" @click=${() => { most += MOST_CARDS; page.redraw(); }}>More</button> <span class="note">${count(cards.size - most)} more held calls</span></p>` : nothing}
      ${prompts.length ? html`<h2>Agents' own prompts and notifications</h2>
        ${table({ caption: "To be answered where the agent runs, the oldest first", columns: OTHERS, rows: prompts, key: ({ event }) => event, fold: others })}` : nothing}
      <h2>Decided lately</h2>
      ${problem(decided.error)}
      ${table({ caption: "Questions that have ended, the newest first", columns: DECIDED, rows: decided.items, key: ({ id }) => id, empty: decided.loading ? "Loading …" : "None yet." })}`;
  };
}

function titleOf({ tool, cwd }) {
  return `${tool || "A call"} in ${cwd || "an unknown folder"}`;
}

/** The name of a card for screen readers: equal calls are told apart by their numbers. */
function nameOf({ item, number }) {
  return `${titleOf(item)}, held call ${number}`;
}

function heading({ item }) {
  return html`<h3>${titleOf(item)}</h3>`;
}

/** A question that waits; its buttons come with the whole call, so that nobody decides about what is not shown. */
function openCard(page, card, answer) {
  const { item, question, whole, busy } = card;
  const cut = question && isCut(question) && !whole;
  const showAll = () => {
    card.whole = true;
    page.redraw();
  };
  return html`<form class="question" aria-label=${nameOf(card)} @submit=${(event) => answer(event, card)}>
    ${heading(card)}
    ${question
      ? html`${aboutOf(item, question, whole)}
          ${cut ? html`<p><button type="button" @click=${showAll}>Show all</button></p>` : nothing}
          ${page.may("operate") ? controls(question, cut, busy) : html`<p class="note">You may look only; a token with the scope <code>operate</code> can answer.</p>`}`
      : html`<p class="empty">Loading …</p>`}
  </form>`;
}

function controls({ has_secret: secret, needs }, cut, busy) {
  return html`<label>Comment, which the model reads <input name="comment" maxlength="500" autocomplete="off" @keydown=${onEnter}></label>
    <p class="line">
      <button class="yes" value="approve" data-steady ?disabled=${busy}>${cut ? "Show all, to approve" : "✓ Approve"}</button>
      <button class="danger" value="deny" data-steady ?disabled=${busy}>✕ Deny</button>
      ${secret || cut || needs?.some(({ persons }) => persons > 1) ? nothing : html`<button value="remember" data-steady ?disabled=${busy}>Approve and remember …</button>`}
    </p>`;
}

/** Enter in the comment decides nothing: a browser would press the first button, which approves. */
function onEnter(event) {
  if (event.key !== "Enter" || event.isComposing) return;
  event.preventDefault();
  event.target.form.querySelector("button[value]").focus();
}

/** A question that has ended while the page was open; what came of it is where its buttons were. */
function endedCard(card) {
  const { id, item, question, whole } = card;
  return html`<section class="question ended" aria-label=${nameOf(card)}>
    ${heading(card)}
    ${question ? aboutOf(item, question, whole) : nothing}
    <p class="outcome" id=${`outcome-${id}`} tabindex="-1">${question ? html`${mark(question.state.replaceAll("_", " "))} ${question.by ? html`by ${question.by}${question.comment ? html`: “${question.comment}”` : nothing}` : nothing}` : "It is no longer kept."}</p>
  </section>`;
}

/** The call, the rules that ask, and what else there is to know. */
function aboutOf(item, question, whole) {
  return html`${callOf(question, whole)} ${rulesOf(question)} ${factsOf(item, question)}
    ${question.state !== "waiting" || question.agent_waits ? nothing : html`<p class="note">The agent waits no longer. After a yes, the same call passes once, within ten minutes.</p>`}`;
}

/** The rules that ask: without them the call would run. */
function rulesOf({ rules = [], reason }) {
  if (!rules.length) return html`<p>${reason}</p>`;
  return html`<ul class="rules">${rules.map(
    ({ hook, layer, version, origin, reason: why }) => html`<li><a href=${addressOf("hooks", hook)}>${hook}</a> asks${why || reason ? html`: <strong>${why || reason}</strong>` : nothing}
      <span class="note">${[version ? `${layer}@${version}` : layer, origin].filter(Boolean).join(", ")}</span></li>`,
  )}</ul>`;
}

function factsOf(item, question) {
  const ends = question.agent_waits ? question.due : question.ends;
  const time = ends - Date.now();
  return facts([
    question.state === "waiting"
      ? [question.agent_waits ? "The agent waits for" : "Open for", html`<span class=${time < HURRY_MS ? "hurry" : ""}>${left(time)}</span> <span class="note">until ${moment(ends)}</span>`]
      : ["Ended", moment(question.answered || question.ends)],
    ["Without an answer", mark(question.default)],
    ["Asked", ago(item.since)],
    ["Agent", [item.source, item.host].filter(Boolean).join(" on ")],
    ["Session", item.session && html`<a href=${addressOf("sessions", item.session, { source: item.source, host: item.host })}>${item.session}</a>`],
    ["Folder", item.cwd && html`<code>${item.cwd}</code>`],
    ["Needs", question.needs?.map(needs).join("; ")],
    ["Approved so far by", question.approved_by?.join(", ")],
    ["Event", eventLink(item.event)],
  ]);
}

function needs({ members, persons }) {
  const who = members?.length ? `of ${members.join(", ")}` : "with tokens";
  return `${persons} ${persons === 1 ? "person" : "persons"} ${who}`;
}

function outcome(verb, { missing, agent_waits: waits }) {
  if (missing) return `Your yes is noted; ${missing} more ${missing === 1 ? "person has" : "persons have"} to approve.`;
  if (verb === "deny") return "Denied.";
  return waits ? "Approved; the agent goes on." : "Approved; the same call passes once, within ten minutes.";
}

const OTHERS = [
  { head: "What", name: true, cell: ({ text, tool }) => text || tool },
  { head: "Kind", cell: ({ kind }) => kind },
  { head: "Since", cell: ({ since }) => ago(since) },
  { head: "Session", cell: ({ session }) => session },
  { head: "Agent", cell: ({ source, host }) => [source, host].filter(Boolean).join(" on ") },
  { head: "Event", cell: ({ event }) => eventLink(event) },
];

const DECIDED = [
  { head: "Call", name: true, cell: ({ id, summary }) => html`<a href=${addressOf("approvals", id)}>${summary.length > MOST_SUMMARY ? `${summary.slice(0, MOST_SUMMARY)}…` : summary}</a>` },
  { head: "Answer", cell: ({ state }) => mark(state.replaceAll("_", " ")) },
  { head: "By", cell: ({ by }) => by ?? "" },
  { head: "When", cell: ({ answered, ends }) => moment(answered || ends) },
  { head: "Comment", cell: ({ comment }) => comment ?? "" },
];
