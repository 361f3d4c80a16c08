"""Pictures of the pages in a real Chromium, dark, light and of a phone's width: `make page-screens`.

A fleet is started in a folder of its own, an agent's hook commands send events to it, and the pages are taken as they are then.
"""

from __future__ import annotations

import base64
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.flow.pages.conftest import HOOKS
from tests.support.beside import beside
from tests.support.browser import Tab, chromium
from tests.support.fleet import Agent, fleet
from tests.support.gateway import start_gateway
from tests.support.receivers import Answer, receiving

FOLDER: Final = Path(__file__).parent / "screens" / "pages"
SIZES: Final = {"light": (1200, 750), "dark": (1200, 750), "phone": (360, 740)}
PICTURES: Final = (
    "live-light",
    "live-dark",
    "event-light",
    "inbox-light",
    "inbox-phone",
    "hooks-light",
    "endpoints-light",
    "dead-phone",
    "status-light",
    "stop-dark",
)
ENDPOINTS: Final = """
network: {{allow: ["127.0.0.1:{port}"]}}
endpoints:
  - {{id: audit, url: "http://127.0.0.1:{port}/audit", events: "tool:*"}}
  - {{id: chat, url: "http://127.0.0.1:{port}/chat", events: "tool:*", when: "event.session == '7e00'", retry: []}}
"""

CALLS: Final = (
    ("ls -la src", "8c1f"),
    ("npm test", "8c1f"),
    ("git diff --stat", "21ab"),
    ("rm -rf node_modules", "8c1f"),
    ("uv run pytest -q", "21ab"),
    ("rm /var/lib/app/data.db", "21ab"),
)


DEPLOY: Final = """\
deploy production \\
  --image registry.example/shop:2026.11.3 \\
  --region eu-west-1"""


def call(agent: Agent, command: str, session: str, **more: object) -> None:
    fields = {"command": command, **more}
    payload = {"session_id": session, "cwd": "/home/ana/shop", "tool_name": "Bash", "tool_input": fields}
    with agent.start("PreToolUse") as process:
        process.communicate(json.dumps(payload).encode(), timeout=300)


def take(tab: Tab, view: str, name: str) -> None:
    """Go to a view and write its picture; WebP takes a third of the bytes of PNG."""
    kind = name.rpartition("-")[2]
    width, height = SIZES[kind]
    tab.page.set_viewport_size({"width": width, "height": height})
    tab.page.emulate_media(color_scheme="light" if kind == "light" else "dark")
    tab.go(view)
    tab.page.wait_for_timeout(1500)  # what a view loads, and the status's first plots
    shot = tab.context.new_cdp_session(tab.page).send("Page.captureScreenshot", {"format": "webp", "quality": 80})
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.webp"
    path.write_bytes(base64.b64decode(shot["data"]))
    print(f"{path}: {path.stat().st_size // 1024} KiB")


def main() -> None:
    workers = ("evaluator", "dispatcher", "carrier", "host", "chores")
    with (
        chromium() as browser,
        beside(receiving) as receiver,
        tempfile.TemporaryDirectory() as folder,
        fleet(Path(folder), *workers) as world,
        ThreadPoolExecutor(1) as held,
    ):
        gateway = start_gateway(world)
        receiver.by_path["/chat"] = Answer(404)
        world.publish_hooks(HOOKS + ENDPOINTS.format(port=receiver.port))
        agent = world.agent(budget=60.0)
        for command, session in CALLS:
            call(agent, command, session)
        tab = Tab(browser, gateway)
        page = tab.sign_in("status")
        for number in range(30):
            call(agent, CALLS[number % len(CALLS)][0], f"7e{number % 3}0")
            page.wait_for_timeout(900)
        call(agent, *CALLS[3])
        held.submit(call, agent, DEPLOY, "21ab", description="Deploy the shop", timeout=120_000)
        tab.go("live")
        page.get_by_role("row").filter(has_text="deploy production").wait_for()
        page.get_by_role("row").filter(has_text="node_modules").first.get_by_role("link").first.click()
        page.get_by_role("heading", level=1).filter(has_text="deny").wait_for()
        places = {"event": page.url.rpartition("#/")[2]}
        for name in PICTURES:
            view = name.rpartition("-")[0]
            if view == "stop":
                tab.go(view)
                page.get_by_label("Reason").fill("the database of production is being restored")
                page.get_by_role("button", name="Stop").click()
            take(tab, places.get(view, view), name)
        tab.go("stop")
        page.get_by_role("button", name="Resume").click()
        tab.go("inbox")
        page.get_by_role("button", name="Deny").click()
        tab.close()


if __name__ == "__main__":
    main()
