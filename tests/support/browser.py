"""A real headless Chromium for the tests of the pages: the machine's own, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.gateway import Gateway
from workers.gateway.pages.sign_ins import create_code
from workers.gateway.tokens import Scope

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The headless shell comes first: it has no windows, no extensions and no panes, and takes a quarter of the processor time."""

_FLAGS = (
    "--no-sandbox",  # CI runs as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
_PATIENCE_MS = 60_000
_HIDE_EQUAL_ROWS = """(copies) => {
  const length = (text) => Math.min(text.length, 4), seen = new Map(), hidden = [], ids = new Map();
  const shape = (node) => node.nodeType === 3 ? `"${length(node.data.trim())}"` : node.nodeType !== 1 ? "" :
    `<${node.tagName}${[...node.attributes].map(({name, value}) =>
      ` ${name}=${/^(class|style|role|type|scope|tabindex|hidden|disabled|colspan|for)$|^aria-(?!label)/.test(name) ?
        value : length(value)}`).sort().join("")}>${[...node.childNodes].map(shape).join("")}</>`;
  for (const element of document.querySelectorAll("[id]")) ids.set(element.id, (ids.get(element.id) ?? 0) + 1);
  for (const row of document.querySelectorAll("tbody tr:not([hidden])")) {
    const equal = shape(row), count = (seen.get(equal) ?? 0) + 1;
    seen.set(equal, count);
    if (count > copies) { row.hidden = true; hidden.push(row); }
  }
  window.hiddenRows = hidden;
  return [...ids].filter(([, count]) => count > 1).map(([id]) => `the id ${id} is there more than once`);
}"""
_COPIES = 2
PERSON = "ana@laptop"
"""Who is signed in by a one-time code."""


@cache
def _axe() -> str:
    return (Path(__file__).parent / "axe" / "axe.min.js").read_text("utf-8")


@contextmanager
def chromium() -> Iterator[Browser]:
    """The machine's Chromium; skips the test where there is none."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.skip("there is no Chromium on this machine (Debian: apt-get install chromium-headless-shell)")
    expect.set_options(timeout=_PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A page of a browser that has no other sign-in. It notes errors of scripts, and calls of other hosts."""

    def __init__(self, browser: Browser, gateway: Gateway, **options: Any) -> None:
        self.gateway = gateway
        self.context = browser.new_context(**options)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(_PATIENCE_MS)
        self.troubles: list[str] = []
        self.page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        self.page.on("console", lambda said: self._note(said.type, said.text))
        self.page.on("request", lambda request: self._check(request.url))

    def sign_in(self, view: str = "") -> Page:
        """Sign in by a one-time address, and go to a view."""
        self.page.goto(self.address())
        self.page.get_by_role("button", name="Sign out").wait_for()
        return self.go(view) if view else self.page

    def sign_in_by_token(self, *scopes: Scope) -> Page:
        """Sign in by a new token with these scopes."""
        name = "-".join(scopes)
        self.page.goto(self.gateway.url)
        self.page.get_by_label("token").fill(self.gateway.token(name, *scopes))
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("button", name="Sign out").wait_for()
        self.troubles.clear()  # the browser notes that nobody was signed in at first
        return self.page

    def address(self) -> str:
        """A new one-time address."""
        fleet = self.gateway.fleet
        code = fleet.ask(lambda connections: create_code(connections, fleet.keys, by=PERSON))
        return f"{self.gateway.url}/#sign-in={code}"

    def go(self, view: str) -> Page:
        """Go to a view, such as `events/e01`."""
        self.page.goto(f"{self.gateway.url}/#/{view}")
        self.page.locator(f'#main[data-address="#/{view}"]').wait_for()  # the view before has a heading too
        self.page.get_by_role("heading", level=1).wait_for()
        return self.page

    def violations(self) -> list[str]:
        """What axe-core finds on the page as it is now: rule, what it means, and where.

        Of rows with the same elements, attributes and classes, whose texts have the same length up to four characters, it
        looks at two: 100 rows take it ten seconds. Ids are compared over all rows.
        """
        if not self.page.evaluate("typeof axe === 'object'"):
            # By the protocol of the developer tools, since the page's policy lets no script of others in.
            self.context.new_cdp_session(self.page).send("Runtime.evaluate", {"expression": _axe()})
        same_ids: list[str] = self.page.evaluate(_HIDE_EQUAL_ROWS, _COPIES)
        found = self.page.evaluate(f"axe.run(document, {{runOnly: {list(_RULES)}, resultTypes: ['violations']}})")[
            "violations"
        ]
        self.page.evaluate("hiddenRows.forEach(row => { row.hidden = false })")
        return same_ids + [
            f"{one['id']}: {one['help']}: {[node['html'] for node in one['nodes']][:3]}" for one in found
        ]

    def unfit(self, view: str, *, dark: bool) -> dict[str, list[str]]:
        """What axe-core finds, by place: dark at 360 pixels, or light at 1280. The view is wider than neither screen.

        axe takes seconds and all views share their style: a test alternates from view to view.
        """
        found: dict[str, list[str]] = {}
        for scheme, width in (("light", 1280), ("dark", 360)):
            self.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # playwright has literals
            self.page.set_viewport_size({"width": width, "height": 800})
            place = f"{view}, {scheme}, at {width} pixels"
            wider = int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))
            if wider > 0:
                found[place] = [f"it is {wider} pixels wider than the screen"]
            if dark == (scheme == "dark"):
                found[place] = found.get(place, []) + self.violations()
        return {place: troubles for place, troubles in found.items() if troubles}

    def close(self) -> None:
        self.context.close()

    def _note(self, kind: str, text: str) -> None:
        if kind == "error":
            self.troubles.append(f"console: {text}")

    def _check(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"data", "blob"} and parts.netloc != f"127.0.0.1:{self.gateway.port}":
            self.troubles.append(f"a request to another host: {url}")
