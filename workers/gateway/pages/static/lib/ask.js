// Modal dialogs: a question to the person before something is done, and what came of it. The browser gives them focus and Escape.

import { signedIn } from "./api.js";
import { html, nothing, render } from "./html.js";

/**
 * Ask, and wait for the answer: null for no; for yes the text of the field or the value of the choice, or "" without one.
 *
 * `title` is the question, `text` what follows from a yes, `content` a template below it, `yes` the button's words. `field`: the
 * label of a text that may be empty. `choice`: `{label, options}` with `[value, text]` each. `danger`: the yes destroys something.
 */
export function ask({ title, text = "", content = nothing, yes, field = "", choice = null, danger = false }) {
  return opened(
    html`<h2 id="ask-title">${title}</h2>
      ${text ? html`<p>${text}</p>` : nothing} ${content}
      ${field ? html`<label>${field} <input name="answer" autocomplete="off"></label>` : nothing}
      ${choice ? html`<label>${choice.label} <select name="answer">${choice.options.map(([value, words]) => html`<option value=${value}>${words}</option>`)}</select></label>` : nothing}
      <p class="line"><button class=${danger ? "danger" : "yes"} value="yes">${yes}</button> <button value="">Cancel</button></p>`,
    // A mistaken Enter must not destroy anything.
    danger ? "button[value='']" : "",
  );
}

/** Tell the person something at length, and wait until it is closed. */
export function tell({ title, text = "", content = nothing }) {
  return opened(html`<h2 id="ask-title">${title}</h2>${text ? html`<p>${text}</p>` : nothing} ${content}<p class="line"><button value="">Close</button></p>`);
}

function opened(template, focus = "") {
  const before = document.activeElement;
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "ask-title");
  document.body.append(dialog);
  const end = () => dialog.close("");
  signedIn.addEventListener("ended", end);
  return new Promise((answer) => {
    const close = () => {
      signedIn.removeEventListener("ended", end);
      answer(dialog.returnValue === "yes" ? (dialog.querySelector("[name='answer']")?.value.trim() ?? "") : null);
      dialog.remove();
      // The view may have drawn what had the focus away meanwhile.
      if (document.activeElement === document.body) (before?.isConnected ? before : document.getElementById("main"))?.focus({ preventScroll: true });
    };
    dialog.addEventListener("close", close, { once: true });
    render(html`<form method="dialog">${template}</form>`, dialog);
    dialog.showModal();
    if (focus) dialog.querySelector(focus).focus();
  });
}
