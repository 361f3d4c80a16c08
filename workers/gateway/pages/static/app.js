// The page: signs in, shows the bar, and opens the view that the address names.
//
// How a view is added: see views/index.js.

import { get, isPassing, onOtherTabs, signIn, signOut, signedIn } from "./lib/api.js";
import { Bar } from "./lib/bar.js";
import { html, render } from "./lib/html.js";
import { Page, addressOf, readAddress } from "./lib/page.js";
import { problem } from "./lib/parts.js";
import { steadily, unsettled } from "./lib/steady.js";
import { VIEWS } from "./views/index.js";
import { signInForm } from "./views/sign-in.js";

const RETRY_MS = 3_000;

const main = document.getElementById("main");
const status = document.getElementById("status");
const bar = new Bar(document.getElementById("bar"), VIEWS, signOut);

let page = null;
let who = null;
let opened = 0;
let fading = 0;

/** Show a message for a while. */
function announce(text, failed = false) {
  clearTimeout(fading);
  status.textContent = text;
  status.classList.toggle("failed", failed);
  fading = setTimeout(() => (status.textContent = ""), failed ? 12_000 : 6_000);
}

/** Open the view of the address. `moved`: the person went there, so the keyboard's focus follows. */
async function open(moved) {
  const hash = location.hash;
  const address = readAddress(hash);
  const number = ++opened;
  page?.close();
  page = null;
  const view = VIEWS.find(({ name }) => name === address.name);
  if (!view) {
    location.replace(addressOf("live"));
    return;
  }
  document.title = `${view.title} · Fleethook`;
  bar.show(view.name);
  let template;
  try {
    const module = await view.load();
    if (number !== opened) return;
    page = new Page(address, who, () => steadily(() => render(template(), main)), announce);
    template = module.open(page);
  } catch (error) {
    console.error(error);
    template = () => html`<h1>${view.title}</h1>${problem(error)}`;
  }
  steadily(() => render(template(), main));
  main.dataset.address = hash; // for programs that wait for the view that they opened
  if (moved) {
    main.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
}

/** Show the form that signs in, with why it is there. */
function askToSignIn(why = "") {
  opened++;
  page?.close();
  page = null;
  bar.stop();
  document.title = "Sign in · Fleethook";
  render(signInForm(why, async (token) => begin({ token })), main);
}

/** Sign in by `{code}` or `{token}`, or go on with the sign-in that this browser has. */
async function begin(by) {
  try {
    who = by ? await signIn(by) : await get("v1/sign-in");
  } catch (error) {
    if (isPassing(error)) return waitFor(error, by);
    // Somebody opens a used address again, in the browser that it has signed in.
    who = by?.code ? await get("v1/sign-in").catch(() => null) : null;
    if (!who) return askToSignIn(error.status === 401 && !by ? "" : error.message);
    announce(`${error.message}. This browser is signed in already.`, true);
  }
  render(html``, main);
  bar.start(who);
  await open(false);
}

/** Say why nothing is shown yet, and try again: the gateway or its Redis is away. */
function waitFor(error, by) {
  const mine = ++opened;
  document.title = "Fleethook";
  render(html`<h1>Fleethook</h1>${problem(error)}<p class="note">Trying again …</p>`, main);
  setTimeout(() => mine === opened && begin(by), RETRY_MS);
}

/** Another tab has signed in: go on here too, unless nothing has changed for this one. */
async function beginAgain() {
  const now = bar.runs ? await get("v1/sign-in").catch(() => null) : null;
  if (!now || now.name !== who.name || String(now.scopes) !== String(who.scopes)) begin();
}

/** The one-time code of the address. It leaves the address at once, so that no history and no bookmark has it. */
function takeCode() {
  const match = /^#sign-in=([\w-]+)$/.exec(location.hash);
  if (match) history.replaceState(null, "", addressOf("live"));
  return match?.[1];
}

async function start() {
  // A browser may load a page ahead of the person's decision to go there. A code is used once, so it waits.
  if (document.prerendering) await new Promise((done) => document.addEventListener("prerenderingchange", done, { once: true }));
  const code = takeCode();
  await begin(code && { code });
}

signedIn.addEventListener("ended", ({ detail }) => askToSignIn(detail));
unsettled.addEventListener("click", () => announce("The page has just moved, so nothing was done. Look again.", true));
onOtherTabs(beginAgain);
// The address names the view, so the way to the content leaves it as it is.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => {
  const code = takeCode();
  if (code) begin({ code });
  else if (bar.runs) open(true);
});
start();
