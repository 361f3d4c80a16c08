// What a view works with: its address, values of the gateway that stay fresh, the live feed, and messages to the person.

import { get, getChanged, isPassing, post } from "./api.js";
import { follow } from "./feed.js";

const REDRAW_MS = 200;
const RETRY_SECONDS = 5;
const FOLD = 100; // rows

/** The parts of an address such as `#/events/e01?decision=deny`: the view's name, its parameter and its query. */
export function readAddress(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [name, ...rest] = path.split("/");
  return { name: name || "live", param: decode(rest.join("/")), query: Object.fromEntries(new URLSearchParams(query)) };
}

/** The address of a view, for `href`. */
export function addressOf(name, param = "", query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const text = new URLSearchParams(given).toString();
  return `#/${name}${param ? `/${encodeURIComponent(param)}` : ""}${text ? `?${text}` : ""}`;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** One opened view. Everything that it started ends with `close()`. */
export class Page {
  constructor(address, who, draw, status) {
    this.who = who; // `{name, scopes, expires}`
    this.name = address.name;
    this.param = address.param;
    this.query = address.query;
    this._draw = draw;
    this._status = status;
    this._ends = [];
    this._after = [];
    this._due = 0;
    this._drawn = 0;
    this._abort = new AbortController();
  }

  /** Whether the person may do what needs a scope: `operate` answers, retries, pauses and stops. */
  may(scope) {
    return this.who.scopes.includes(scope);
  }

  /** Draw the view again, at most five times a second. */
  redraw() {
    if (this._due || this._abort.signal.aborted) return;
    const wait = Math.max(0, this._drawn + REDRAW_MS - performance.now());
    this._due = setTimeout(() => {
      this._due = 0;
      this._drawn = performance.now();
      this._draw();
      for (const work of this._after.splice(0)) work();
    }, wait);
  }

  /** Run `work` after the next drawing. */
  afterDraw(work) {
    this._after.push(work);
    this.redraw();
  }

  /** Run `work` when the view ends. */
  onClose(work) {
    this._ends.push(work);
  }

  /** Run `work` every so many seconds while the page can be seen. */
  every(seconds, work) {
    const timer = setInterval(() => document.hidden || work(), seconds * 1000);
    this.onClose(() => clearInterval(timer));
  }

  /**
   * The JSON of a path: `{value, error, loading, reload()}`. The view is drawn again when it changes. `every`: read it
   * again after so many seconds; after a failure that passes, it is read again anyway. `query` may be a function.
   */
  resource(path, { query = {}, every = 0 } = {}) {
    const found = { value: undefined, error: undefined, loading: true };
    let tag = "";
    found.reload = async () => {
      try {
        const changed = await getChanged(path, typeof query === "function" ? query() : query, this._abort.signal, tag);
        if (!changed && !found.error) return;
        if (changed) ({ value: found.value, tag } = changed);
        found.error = undefined;
      } catch (error) {
        if (error.name === "AbortError") return;
        found.error = error;
      }
      found.loading = false;
      this.redraw();
    };
    found.reload();
    if (every) this.every(every, found.reload);
    else this._retry(found);
    return found;
  }

  /**
   * A list that comes in pages: `{items, next, error, loading, fold, reload(), more()}`. `more()` adds the next page. With
   * `every` the first page is read again after so many seconds, unless more pages were added.
   */
  list(path, { query = {}, every = 0 } = {}) {
    const found = { items: [], next: null, error: undefined, loading: true, fold: this.fold() };
    let pages = 0;
    let turn = 0;
    const read = async (cursor) => {
      const mine = ++turn; // a newer reading makes this one void: its filters, or its place in the list, are others
      found.loading = true;
      this.redraw();
      try {
        const page = await get(path, { ...(typeof query === "function" ? query() : query), cursor }, this._abort.signal);
        if (mine !== turn) return;
        found.items = cursor ? [...found.items, ...page.items] : page.items;
        found.next = page.next;
        found.error = undefined;
        pages = cursor ? pages + 1 : 1;
        if (cursor) found.fold.most = Math.max(found.fold.most, found.items.length);
      } catch (error) {
        if (mine !== turn || error.name === "AbortError") return;
        found.error = error;
      }
      found.loading = false;
      this.redraw();
    };
    found.reload = () => read("");
    found.more = () => found.loading || read(found.next); // else rows of other filters would come below those of before
    found.reload();
    if (every) this.every(every, () => pages > 1 || found.loading || found.reload());
    else this._retry(found);
    return found;
  }

  /** How many rows of a long table are drawn: `{most, more()}`. */
  fold(size = FOLD) {
    const fold = { most: size };
    fold.more = () => {
      fold.most += size;
      this.redraw();
    };
    return fold;
  }

  /** Read something again, after a while, whose reading failed because the gateway or its Redis is away. */
  _retry(found) {
    this.every(RETRY_SECONDS, () => found.error && !found.loading && isPassing(found.error) && found.reload());
  }

  /** Follow the live feed while the view is open; see `follow` in feed.js. Returns `{close()}`. */
  feed(subscription, onMessage, onState) {
    const feed = follow(subscription, onMessage, onState);
    this.onClose(() => feed.close());
    return feed;
  }

  /** POST to a path, and tell the person how it went: `done` is a text or makes one of the answer; empty: say nothing. Returns the answer. */
  async act(path, body, done) {
    try {
      const said = await post(path, body);
      if (done) this.announce(typeof done === "function" ? done(said) : done);
      return said;
    } catch (error) {
      this.announce(error.message, true);
      return undefined;
    } finally {
      this.redraw();
    }
  }

  /** Show a message for a while; a screen reader says it. */
  announce(text, failed = false) {
    this._status(text, failed);
  }

  /** Change the address's query without opening the view again, so that a link or a reload gives the same. */
  setQuery(changes) {
    this.query = Object.fromEntries(Object.entries({ ...this.query, ...changes }).filter(([, value]) => value !== ""));
    history.replaceState(null, "", addressOf(this.name, this.param, this.query));
    this.redraw();
  }

  close() {
    this._abort.abort();
    clearTimeout(this._due);
    for (const end of this._ends) end();
  }
}
