// The only module that imports lit-html. Values in its templates become text nodes and attributes, never HTML.

import { html as template } from "../vendor/lit-html/lit-html.js";

export { nothing, render, svg } from "../vendor/lit-html/lit-html.js";
export { repeat } from "../vendor/lit-html/directives/repeat.js";

// Some characters are invisible, and some reverse the order of the text after them. A person would then approve another command
// than the one that runs, so they are written out, as in the commands of `fleethook`. Joiners and variation selectors stay:
// emoji and some languages are written with them.
const UNSEEN = /[^\P{Cc}\t\n]|\p{Cs}|[\u2028\u2029]|[^\P{Default_Ignorable_Code_Point}\u200c\u200d\ufe0e\ufe0f]/gu;

// In what a person decides about, nothing may look like something else: no joiner, and no blank but the common one.
const UNLIKE = /[^\P{Cc}\t\n]|\p{Cs}|[\u2028\u2029]|\p{Default_Ignorable_Code_Point}|[^\P{Zs} ]/gu;

/** A template of lit-html; in its values every character can be seen. */
export function html(strings, ...values) {
  return template(strings, ...values.map(seen));
}

function seen(value) {
  if (Array.isArray(value)) return value.map(seen);
  return typeof value === "string" ? value.replace(UNSEEN, writtenOut) : value;
}

/** A text as it is, with what cannot be seen written out and marked. */
export function exact(text) {
  const found = [...text.matchAll(UNLIKE)];
  if (!found.length) return html`${text}`;
  const parts = [];
  let end = 0;
  for (const match of found) {
    parts.push(text.slice(end, match.index), template`<mark title="a character that cannot be seen">${writtenOut(match[0])}</mark>`);
    end = match.index + match[0].length;
  }
  return template`${[...parts, text.slice(end)]}`;
}

function writtenOut(character) {
  const code = character.codePointAt(0).toString(16);
  if (code.length > 4) return `\\u{${code}}`;
  return code.length < 3 ? `\\x${code.padStart(2, "0")}` : `\\u${code.padStart(4, "0")}`;
}
