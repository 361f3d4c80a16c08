// "Remember": a yes becomes an exception to the rules that asked. The person sees it as a diff before anything is changed.

import { get } from "./api.js";
import { ask, tell } from "./ask.js";
import { exact, html } from "./html.js";

/**
 * Show what remembering a call would change, and ask. Gives whether the person said yes and may do that here.
 *
 * `yes`: the words of the button. Only the published set is changed from here; a file is changed on its own machine.
 */
export async function proposeToRemember(page, id, yes) {
  let found;
  try {
    found = await get(`v1/approvals/${encodeURIComponent(id)}/remember`);
  } catch (error) {
    page.announce(error.message, true);
    return false;
  }
  const files = found.changes.filter(({ layer }) => layer !== "fleet");
  const published = found.changes.find(({ layer }) => layer === "fleet");
  const content = html`${found.changes.map(changeOf)}${files.length ? html`<p class="note">A file is changed on its own machine: <code>fleethook approvals remember ${id}</code></p>` : ""}`;
  const title = "What would be remembered";
  if (!published) await tell({ title, text: "Nothing can be changed from here.", content });
  else if (!published.diff) await tell({ title, text: "The published set has this exception already.", content });
  else if (!page.may("admin")) await tell({ title, text: "To publish this needs a sign-in by a token with the scope admin.", content });
  else return (await ask({ title: "Never ask about this call again?", text: "The rule that asked gets this exception, and every machine of the fleet has it within a second. Only exactly this call passes.", content, yes })) !== null;
  return false;
}

/** Publish the exception, and tell how it went. */
export async function remember(page, id) {
  return page.act(`v1/approvals/${encodeURIComponent(id)}/remember`, undefined, ({ version }) => `It is remembered: version ${version} of the published set.`);
}

function changeOf({ layer, where, diff }) {
  return html`<h3>${layer === "fleet" ? "The published set" : `The ${layer}'s file`}: ${where}</h3>
    <pre class="diff" tabindex="0">${diff ? diff.split("\n").map((line) => html`<span data-sign=${line[0] ?? ""}>${exact(line)}\n</span>`) : "No change."}</pre>`;
}
