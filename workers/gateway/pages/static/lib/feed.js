// The live feed: a WebSocket that connects again with the cursor of its last message, so that nothing is left out.

import { pageKey, refusal, urlOf } from "./api.js";

const SILENT_MS = 40_000; // the gateway sends a heartbeat after 15 seconds without a message
const RIGHT_LOST = 1008; // the close code when a sign-in has ended
const FIRST_WAIT_MS = 500;
const MOST_WAIT_MS = 10_000;

/**
 * Follow the feed until `close()`.
 *
 * `subscription` is `{events, where}`: event patterns with commas, and a CEL condition. `onMessage` gets each `event` and
 * `delivery` message, and `position` once for each connection. `onState` gets `{state, waiting, missing}`: `connecting`,
 * `connected`, `behind` (so many messages wait), `away` (it tries again by itself), or `refused` (with `problem`); `missing`
 * is true when the gateway no longer had everything that came while the connection was lost.
 */
export function follow(subscription, onMessage, onState = () => undefined) {
  let socket = null;
  let cursor = "";
  let wait = FIRST_WAIT_MS;
  let timer = 0;
  let missing = false;
  let closed = false;

  const say = (state, more = {}) => closed || onState({ state, waiting: 0, missing, ...more });

  function watch() {
    clearTimeout(timer);
    timer = setTimeout(() => socket?.close(), SILENT_MS);
  }

  function connect() {
    say("connecting");
    const url = urlOf("v1/live", { ...subscription, cursor });
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    socket = new WebSocket(url, ["fleethook.v1", `fleethook.page.${pageKey()}`]);
    let opened = false;
    socket.onopen = () => {
      opened = true;
      watch();
    };
    socket.onmessage = ({ data }) => {
      watch();
      const message = JSON.parse(data);
      cursor = message.cursor ?? cursor;
      if (message.kind === "position") {
        wait = FIRST_WAIT_MS;
        missing ||= !message.complete;
        say("connected");
      } else if (message.kind === "behind") {
        say("behind", { waiting: message.messages });
      } else if (message.kind === "heartbeat") {
        say("connected");
      }
      if (["position", "event", "delivery"].includes(message.kind)) onMessage(message);
    };
    socket.onclose = async ({ code }) => {
      clearTimeout(timer);
      if (closed) return;
      if (!opened || code === RIGHT_LOST) {
        const problem = await refusal("v1/live/sse", { ...subscription, cursor });
        if (closed) return;
        if (problem) return say("refused", { problem });
      }
      say("away");
      timer = setTimeout(connect, wait * (0.5 + Math.random()));
      wait = Math.min(wait * 2, MOST_WAIT_MS);
    };
  }

  connect();
  return {
    close() {
      closed = true;
      clearTimeout(timer);
      socket?.close();
    },
  };
}
