// The form that signs in by a token, and how to get a one-time address instead.

import { html, nothing } from "../lib/html.js";

/** The form; `submit(token)` signs in, and `why` says what went wrong before. */
export function signInForm(why, submit) {
  const send = (event) => {
    event.preventDefault();
    const field = event.target.elements.token;
    const token = field.value.trim();
    field.value = "";
    if (token) submit(token);
  };
  return html`<div class="sign-in">
    <h1>Sign in</h1>
    ${why ? html`<p class="problem" role="alert">${why}</p>` : nothing}
    <p>Run <code>fleethook open</code> on the gateway's machine: it prints and opens an address that signs this browser in.</p>
    <form @submit=${send}>
      <label>Or a token with the scope <code>observe</code>, and <code>operate</code> to answer, retry and stop
        <input name="token" type="password" autocomplete="off" spellcheck="false" required></label>
      <button>Sign in</button>
    </form>
  </div>`;
}
