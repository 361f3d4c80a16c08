// Rows that a person selects, and one operation on all of them.

import { get, post } from "./api.js";
import { html, nothing } from "./html.js";
import { count } from "./parts.js";

const MOST_IDS = 500; // of one call of the gateway
const MOST_MATCHING = 20_000;

/** The selected rows of a list of `Page.list`; a row that is no longer in the list is not selected any more. */
export class Selection {
  constructor(page, list) {
    this._page = page;
    this._list = list;
    this._ids = new Set();
  }

  get ids() {
    return this._list.items.map(({ id }) => id).filter((id) => this._ids.has(id));
  }

  clear() {
    this._ids.clear();
    this._page.redraw();
  }

  /** The columns with a box for each row: one, or none for a person who may only look. */
  get columns() {
    if (!this._page.may("operate")) return [];
    const column = {
      head: "Select",
      cell: ({ id }) =>
        html`<label class="box"><input type="checkbox" .checked=${this._ids.has(id)} @change=${({ target }) => this._set([id], target.checked)}><span class="visually-hidden">Select ${id}</span></label>`,
    };
    return [column];
  }

  /** The line above the list: how many are selected, and `buttons`, which work on them. */
  bar(buttons) {
    const all = this._list.items.map(({ id }) => id);
    const chosen = this.ids.length;
    if (!this._page.may("operate")) return lookOnly();
    return all.length
      ? html`<div class="line" role="group" aria-label="Selected rows">
          <label class="box"><input type="checkbox" .checked=${chosen === all.length} .indeterminate=${chosen > 0 && chosen < all.length} @change=${({ target }) => this._set(all, target.checked)}> Select all ${count(all.length)} shown</label>
          ${chosen ? html`<span role="status">${count(chosen)} selected</span>${buttons}` : nothing}
        </div>`
      : nothing;
  }

  _set(ids, selected) {
    for (const id of ids) selected ? this._ids.add(id) : this._ids.delete(id);
    this._page.redraw();
  }
}

/** What a person sees instead of buttons who may only look. */
export function lookOnly() {
  return html`<p class="note">You may look only; a token with the scope <code>operate</code> can pause, try again and drop.</p>`;
}

/** POST ids to a path, 500 at a time; returns how many were named and changed. Throws ApiError. */
export async function postIds(path, ids) {
  const sum = { matching: 0, done: 0 };
  for (let start = 0; start < ids.length; start += MOST_IDS) {
    const said = await post(path, { ids: ids.slice(start, start + MOST_IDS) });
    sum.matching += said.matching;
    sum.done += said.done;
  }
  return sum;
}

/**
 * POST the ids of everything in a list that fits `query`, a page after the other; returns how many were named and changed.
 *
 * A list is read from its newest entry to its oldest. What dies again meanwhile is newer than where we are, so this ends.
 */
export async function postMatching(listPath, query, path, fits = () => true) {
  const sum = { matching: 0, done: 0 };
  let cursor = "";
  do {
    const page = await get(listPath, { ...query, limit: MOST_IDS, cursor });
    const ids = page.items.filter(fits).map(({ id }) => id);
    const said = ids.length ? await postIds(path, ids) : { matching: 0, done: 0 };
    sum.matching += said.matching;
    sum.done += said.done;
    cursor = page.next;
  } while (cursor && sum.matching < MOST_MATCHING);
  return sum;
}

/** Run an operation on many, and tell the person how it went; returns whether it worked. `done`: what was done. */
export async function actOnMany(page, work, done) {
  try {
    const { matching, done: changed } = await work();
    const rest = matching - changed;
    page.announce(`${count(changed)} ${done}${rest ? `; ${count(rest)} had changed before` : ""}.`);
    return true;
  } catch (error) {
    page.announce(error.message, true);
    return false;
  } finally {
    page.redraw();
  }
}
