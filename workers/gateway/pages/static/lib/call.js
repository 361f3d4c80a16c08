// A held call as the person reads it who decides: everything that it would run with, to the last character.

import { exact, html, nothing } from "./html.js";
import { count, problem } from "./parts.js";

const MOST_LINES = 25; // of one value
const MOST_CHARACTERS = 2_500;
const MOST_FIELDS = 20;

const drawn = new WeakMap(); // the fields of an input, as templates: an input does not change, and may be long

/** The input of a question; `whole`: without any cut. */
export function callOf(question, whole) {
  if (!question.input) {
    const why = question.state === "waiting" ? "The whole input cannot be shown: it is longer than 256 KB. This is the beginning of what it says:" : "";
    return html`${why ? problem({ message: why }) : nothing}<pre tabindex="0">${exact(question.summary)}</pre>`;
  }
  return html`
    ${question.input_changed ? html`<p class="note">Hooks have changed the input that the agent gave. This is what runs.</p>` : nothing}
    ${question.has_secret ? html`<p class="note">It holds a secret, which is not shown.</p>` : nothing}
    ${fieldsOf(question.input, whole)}`;
}

/** Whether an input is too long to be shown at once. */
export function isCut({ input }) {
  const texts = Object.values(input ?? {}).map(textOf);
  return texts.length > MOST_FIELDS || texts.some((text) => beginning(text).length < text.length);
}

function fieldsOf(input, whole) {
  const known = drawn.get(input);
  if (known?.whole === whole) return known.template;
  const all = Object.entries(input);
  const shown = whole ? all : all.slice(0, MOST_FIELDS);
  const template = html`<dl class="call">${shown.map(([name, value]) => html`<div ?data-short=${isShort(textOf(value))}><dt>${exact(name)}</dt><dd>${fieldOf(textOf(value), whole)}</dd></div>`)}</dl>
    ${shown.length < all.length ? html`<p class="problem">${count(all.length - shown.length)} more fields are not shown yet.</p>` : nothing}`;
  drawn.set(input, { whole, template });
  return template;
}

function fieldOf(text, whole) {
  const shown = whole ? text : beginning(text);
  const missing = text.slice(shown.length);
  const lines = missing.split("\n").length - 1;
  return html`<pre tabindex="0">${exact(shown)}</pre>
    ${missing ? html`<p class="problem">${count(missing.length)} more characters${lines ? ` in ${count(lines)} ${lines === 1 ? "line" : "lines"}` : ""} are not shown yet.</p>` : nothing}`;
}

/** Whether a value fits beside its name. */
function isShort(text) {
  return text.length <= 24 && !text.includes("\n");
}

function textOf(value) {
  return typeof value === "string" ? value : JSON.stringify(value, undefined, 2);
}

/** The beginning of a text that is shown at first: whole lines where it can be. */
function beginning(text) {
  const lines = text.split("\n", MOST_LINES + 1);
  const some = lines.length > MOST_LINES ? lines.slice(0, MOST_LINES).join("\n") : text;
  return some.length > MOST_CHARACTERS ? some.slice(0, MOST_CHARACTERS) : some;
}
