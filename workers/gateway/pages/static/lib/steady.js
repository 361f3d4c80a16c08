// Drawing again while a person works: the focus stays where it is, and no click decides what came under the pointer just before.
//
// A button that decides at once has the attribute `data-steady`. When drawing moves it or brings it, it takes no click of a
// pointer for a moment, because the person may have aimed at what was there before. Keys go to the button with the focus, which
// is the same one wherever it is.

const SETTLED_MS = 700;
const MOVED_PIXELS = 3;

/** Tells with an event `click` of a click that was not taken. */
export const unsettled = new EventTarget();

const timers = new WeakMap();

/** Run `draw`, which changes the document. */
export function steadily(draw) {
  const focused = document.activeElement;
  const way = [];
  for (let element = focused?.parentElement; element && element !== document.body; element = element.parentElement) way.push(element);
  const places = new Map(buttons().map((button) => [button, button.getBoundingClientRect()]));
  draw();
  for (const button of buttons()) {
    const [before, now] = [places.get(button), button.getBoundingClientRect()];
    if (!before || Math.abs(before.top - now.top) > MOVED_PIXELS || Math.abs(before.left - now.left) > MOVED_PIXELS) hold(button);
  }
  if (focused && focused !== document.body && focused !== document.activeElement && !document.querySelector("dialog")) {
    const next = [focused, ...way].find((element) => element.isConnected && element.matches("a, button, input, select, textarea, summary, [tabindex]"));
    next?.focus({ preventScroll: true });
  }
}

function buttons() {
  return [...document.querySelectorAll("[data-steady]")];
}

function hold(button) {
  clearTimeout(timers.get(button));
  button.setAttribute("aria-disabled", "true");
  timers.set(button, setTimeout(() => button.removeAttribute("aria-disabled"), SETTLED_MS));
}

addEventListener(
  "click",
  (event) => {
    // A key's click has no detail.
    if (!event.detail || !event.target.closest?.("[data-steady][aria-disabled='true']")) return;
    event.preventDefault();
    event.stopPropagation();
    unsettled.dispatchEvent(new Event("click"));
  },
  { capture: true },
);
