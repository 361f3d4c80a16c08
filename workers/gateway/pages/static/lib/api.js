// Calls of the gateway, and the browser's sign-in.
//
// A sign-in has two secrets: a cookie that no script can read, and a key in the storage of this origin. The gateway wants both.

const STORED = "fleethook.key";

/** An error that the gateway reports: its status, its code, and what to do. */
export class ApiError extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

/** Tells with an event `ended` that the sign-in has ended; its detail says why, in words. */
export const signedIn = new EventTarget();

let leaving = false; // whether the person is signing out: then what is refused meanwhile is no news

/** The URL of a path of the gateway, such as `v1/events`, below the address of this page. */
export function urlOf(path, query = {}) {
  const url = new URL(path, document.baseURI);
  url.hash = "";
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) if (one !== "" && one !== undefined && one !== null) url.searchParams.append(name, one);
  }
  return url;
}

/** The page's key; empty while nobody is signed in. */
export function pageKey() {
  return localStorage.getItem(STORED) ?? "";
}

/** The JSON that a GET of a path gives; throws ApiError. */
export function get(path, query = {}, signal = undefined, answered = undefined) {
  return call(urlOf(path, query), { signal }, answered);
}

/** `{value, tag}` of a GET of a path, or undefined if nothing has changed since the answer with that tag; throws ApiError. */
export function getChanged(path, query, signal, tag) {
  return call(urlOf(path, query), { signal, headers: tag ? { "If-None-Match": tag } : {} }, undefined, async (response) =>
    response.status === 304 ? undefined : { value: await response.json(), tag: response.headers.get("ETag") ?? "" },
  );
}

/** The text that a GET of a path gives; throws ApiError. */
export function getText(path) {
  return call(urlOf(path), {}, undefined, (response) => response.text());
}

/** The JSON that a POST of a path gives; throws ApiError. */
export function post(path, body = undefined) {
  return call(urlOf(path), { method: "POST", body: body === undefined ? undefined : JSON.stringify(body) });
}

/** Sign in by `{code}` or `{token}`; throws ApiError. */
export async function signIn(by) {
  const { key, ...who } = await post("v1/sign-in", by);
  localStorage.setItem(STORED, key);
  return who;
}

/** End this browser's sign-in, in all of its tabs. */
export async function signOut() {
  leaving = true;
  const why = await post("v1/sign-out").then(
    () => "You have signed out.",
    () => "This browser has forgotten its sign-in. The gateway did not answer; without this browser the sign-in is of no use, and it ends after twelve hours.",
  );
  localStorage.removeItem(STORED);
  leaving = false;
  ended(why);
}

/** Run `work` when another tab of this browser has signed in, and tell of its signing out. */
export function onOtherTabs(work) {
  addEventListener("storage", ({ key }) => {
    if (key !== STORED && key !== null) return;
    if (pageKey()) work();
    else ended("You have signed out in another tab.");
  });
}

/** Whether a failure can pass by itself: the gateway does not answer, or it cannot reach Redis. */
export function isPassing({ status }) {
  return status === 0 || status >= 500;
}

function ended(why) {
  signedIn.dispatchEvent(new CustomEvent("ended", { detail: why }));
}

/** Why a GET of a path is refused; undefined if it is not, or if the gateway does not answer. */
export async function refusal(path, query) {
  const ended = new AbortController();
  try {
    await get(path, query, ended.signal, () => ended.abort());
  } catch (error) {
    if (error.status >= 400 && error.status < 500) return error.message;
  }
  return undefined;
}

async function call(url, options, answered = () => undefined, read = (response) => response.json()) {
  let response;
  const key = pageKey();
  const headers = { "Fleethook-Page": key, ...options.headers, ...(options.body === undefined ? {} : { "Content-Type": "application/json" }) };
  try {
    response = await fetch(url, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "away", "The gateway does not answer.");
  }
  if (response.ok || response.status === 304) {
    answered();
    return await read(response);
  }
  const said = await response.json().catch(() => ({}));
  if (response.status === 401 && said.code !== "code-invalid" && key === pageKey() && !leaving) ended("The sign-in has ended.");
  throw new ApiError(response.status, said.code ?? "", said.detail ?? `The gateway answered with ${response.status}.`);
}
