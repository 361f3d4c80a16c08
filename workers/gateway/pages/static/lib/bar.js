// The bar above every view: where one can go, how many questions wait, whether a stop is in force, and the feed's state.

import { get } from "./api.js";
import { follow } from "./feed.js";
import { html, nothing, render } from "./html.js";
import { addressOf } from "./page.js";
import { count } from "./parts.js";
import { steadily } from "./steady.js";

const REFRESH_SECONDS = 10;
const RETRY_SECONDS = 2;
const EVENTS = "approval:*,permission:*,notification,fleet:*"; // after these the inbox, or whether a stop is in force, may differ

const STATES = {
  connecting: "connecting …",
  connected: "live",
  behind: "behind",
  away: "not connected",
  refused: "refused",
  blind: "no data from Redis",
};

/** The bar; it draws into `place` while somebody is signed in. */
export class Bar {
  constructor(place, views, signOut) {
    this._place = place;
    this._views = views;
    this._signOut = signOut;
    this._view = "";
    this._feed = null;
    this._timer = 0;
  }

  get runs() {
    return this._feed !== null;
  }

  /** Begin, for the person who signed in. */
  start(who) {
    this.stop();
    this._who = who;
    this._state = { state: "connecting", waiting: 0 };
    this._inbox = [];
    this._stops = [];
    this._failure = null;
    this._feed = follow({ events: EVENTS }, () => this._soon(), (state) => this._show({ _state: state }));
    this._timer = setInterval(() => document.hidden || this._refresh(), REFRESH_SECONDS * 1000);
    this._refresh();
    this._draw();
  }

  stop() {
    this._feed?.close();
    this._feed = null;
    clearInterval(this._timer);
    clearTimeout(this._due);
    render(nothing, this._place);
  }

  /** Mark the view that is open. */
  show(view) {
    this._show({ _view: view });
    const link = this._place.querySelector("[aria-current]")?.getBoundingClientRect();
    const list = this._place.querySelector("ul");
    // On a phone the list scrolls. `scrollIntoView` would also move the place from which Tab goes on.
    if (link) list.scrollLeft += link.left - list.getBoundingClientRect().left - (list.clientWidth - link.width) / 2;
  }

  /** Read the inbox and the stops again, soon: many events that come together cause one call. */
  _soon() {
    clearTimeout(this._due);
    this._due = setTimeout(() => this._refresh(), 150);
  }

  async _refresh() {
    const [inbox, stops] = await Promise.allSettled([get("v1/inbox"), get("v1/stop")]);
    if (!this.runs) return;
    if (inbox.status === "fulfilled") this._inbox = inbox.value.items;
    if (stops.status === "fulfilled") this._stops = stops.value.stops;
    this._failure = [inbox, stops].find(({ reason }) => reason?.status >= 500)?.reason ?? null;
    if (this._failure) {
      clearTimeout(this._due);
      this._due = setTimeout(() => this._refresh(), RETRY_SECONDS * 1000);
    }
    this._draw();
  }

  _show(changes) {
    Object.assign(this, changes);
    if (this.runs) this._draw();
  }

  _draw() {
    const questions = this._inbox.filter(({ kind }) => kind === "question").length;
    // A gateway without Redis keeps its feeds open: nothing comes, which must not look like silence.
    const { state, waiting, problem } = this._failure && this._state.state !== "away" ? { state: "blind", problem: this._failure.message } : this._state;
    const bar = html`<div class="top">
        <a class="name" href=${addressOf("live")}>Fleethook</a>
        <p class="feed" data-state=${state} role="status" title=${problem ?? nothing}>
          <span aria-hidden="true">${state === "connected" ? "●" : "○"}</span> <span class="visually-hidden">Live feed: </span>${STATES[state]}${waiting ? ` by ${count(waiting)}` : ""}
        </p>
        <p class="who"><span title=${`may ${this._who.scopes.join(", ")}${this._who.expires ? `, until ${new Date(this._who.expires).toLocaleString()}` : ""}`}>${this._who.name}</span>
          <button type="button" class="plain" @click=${this._signOut}>Sign out</button></p>
      </div>
      ${this._stops.length ? html`<p class="stop" role="alert"><strong>A stop is in force.</strong> ${this._stops[0].reason ?? ""} <a href=${addressOf("stop")}>Show it</a></p>` : nothing}
      <nav aria-label="Views"><ul>${this._views.filter(({ nav }) => nav).map(
        ({ name, title }) => html`<li><a href=${addressOf(name)} aria-current=${name === this._view ? "page" : nothing}>${title}${
          name === "inbox" && this._inbox.length
            ? html` <span class="count" data-asks=${questions > 0}>${this._inbox.length}<span class="visually-hidden"> waiting</span></span>`
            : nothing
        }</a></li>`,
      )}</ul></nav>`;
    steadily(() => render(bar, this._place)); // the notice of a stop moves everything below it
  }
}
