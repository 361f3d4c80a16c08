// Dead letters: why deliveries were given up, one by one and by reason; try them again, or drop them.

import { ask } from "../lib/ask.js";
import { Selection, actOnMany, postIds, postMatching } from "../lib/bulk.js";
import { html, nothing } from "../lib/html.js";
import { addressOf } from "../lib/page.js";
import { count, eventLink, filters, listed, moment, problem, short, table } from "../lib/parts.js";
import { openDelivery } from "./deliveries.js";

const FIELDS = [
  { name: "endpoint", label: "Endpoint or hook" },
  { name: "reason", label: "Reason", placeholder: "503" },
  { name: "type", label: "Event type", placeholder: "tool:*" },
  { name: "session", label: "Session" },
  { name: "since", label: "Since", placeholder: "12h" },
  { name: "until", label: "Until", placeholder: "1h" },
];

const COLUMNS = [
  { head: "Given up", name: true, cell: ({ id, ms }) => html`<a href=${addressOf("dead", id)}>${moment(ms)}</a>` },
  { head: "Target", cell: ({ hook, target, stream }) => (hook ? html`<a href=${addressOf(target.startsWith("endpoint:") ? "endpoints" : "hooks", hook)}>${hook}</a>` : html`entry of ${stream}`) },
  { head: "Reason", cell: ({ reason }) => html`<span class="reason">${reason}</span>` },
  { head: "Attempts", cell: ({ attempts }) => (attempts ? count(attempts) : "") },
  { head: "Event", cell: ({ event, type, tool }) => html`${eventLink(event)} <span class="note">${[type, tool].filter(Boolean).join(" ")}</span>` },
  { head: "Session", cell: ({ session }) => session && html`<a href=${addressOf("sessions", session)}>${short(session)}</a>` },
];

const isDelivery = ({ kind }) => kind !== "entry"; // an entry that could not be read cannot be tried again

export function open(page) {
  return page.param
    ? openDelivery(page, "v1/dead", "Dead letter", html`<a href=${addressOf("dead")}>All dead letters</a>`, (letter) => dropButton(page, letter))
    : openList(page);
}

function openList(page) {
  const query = () => page.query;
  const letters = page.list("v1/dead", { query, every: 5 });
  const reasons = page.resource("v1/dead/reasons", { query, every: 60 }); // reads up to 20,000 letters
  const selection = new Selection(page, letters);
  const fold = page.fold(20);
  const reload = () => {
    letters.reload();
    reasons.reload();
  };
  const act = async (work, done) => {
    await actOnMany(page, work, done);
    selection.clear();
    reload();
  };
  const total = () => (reasons.value?.items ?? []).reduce((sum, group) => sum + group.count, 0);
  const retry = () => act(() => postIds("v1/dead/redrive", letters.items.filter((letter) => isDelivery(letter) && selection.ids.includes(letter.id)).map(({ id }) => id)), "are tried again");
  const drop = async () => {
    const ids = selection.ids;
    if ((await askToDrop(ids.length)) !== null) act(() => postIds("v1/dead/drop", ids), "were dropped");
  };
  const retryAll = async () => {
    const yes = await ask({ title: `Try all ${count(total())} dead letters${Object.keys(page.query).length ? " of this filter" : ""} again?`, text: "Their endpoints get them at their own pace. Entries that could not be read stay.", yes: "Try all again" });
    if (yes !== null) act(() => postMatching("v1/dead", page.query, "v1/dead/redrive", isDelivery), "are tried again");
  };
  const choose = (reason) => {
    page.setQuery({ reason });
    reload();
  };
  return () => html`
    <h1>Dead letters</h1>
    ${filters(page, FIELDS, reload)}
    ${problem(reasons.error)}
    ${reasons.value?.items.length ? byReason(reasons.value.items, choose, fold) : nothing}
    <h2>Letters</h2>
    <div class="line">
      ${selection.bar(html`<button type="button" class="yes" @click=${retry}>Try again</button> <button type="button" class="danger" @click=${drop}>Drop …</button>`)}
      ${total() && page.may("operate") ? html`<button type="button" @click=${retryAll}>Try all ${count(total())} again …</button>` : nothing}
    </div>
    ${listed(letters, { caption: "Dead letters, the newest first", columns: [...selection.columns, ...COLUMNS], key: ({ id }) => id, empty: "There are no dead letters." })}`;
}

function byReason(groups, choose, fold) {
  return table({
    caption: "Dead letters by reason, the most frequent first",
    columns: [
      { head: "Reason", name: true, cell: ({ reason }) => html`<button type="button" class="plain" title="Show only these" @click=${() => choose(reason)}>${reason || "no reason"}</button>` },
      { head: "Letters", cell: (group) => count(group.count) },
      { head: "Oldest", cell: ({ oldest }) => moment(oldest) },
      { head: "Newest", cell: ({ newest }) => moment(newest) },
      { head: "Targets", cell: ({ targets }) => html`<span class="what">${targets.join(", ")}</span>` },
    ],
    rows: groups,
    key: ({ reason }) => reason,
    fold,
  });
}

function dropButton(page, letter) {
  const drop = async () => {
    if ((await askToDrop(1)) === null) return;
    if (await actOnMany(page, () => postIds("v1/dead/drop", [letter.id]), "was dropped")) location.hash = addressOf("dead");
  };
  return page.may("operate") && (letter.kind === "entry" || letter.state === "dead") ? html`<button type="button" class="danger" @click=${drop}>Drop …</button>` : nothing;
}

function askToDrop(letters) {
  return ask({
    title: `Delete ${letters === 1 ? "this dead letter" : `${count(letters)} dead letters`} for good?`,
    text: "What they keep of their events is deleted too.",
    yes: "Delete",
    danger: true,
  });
}
