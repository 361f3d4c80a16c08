"""A held call of a real agent program, approved on the page in a real Chromium (issue 12, item 11)."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import expect

from tests.agents.programs import PROGRAMS, Missing
from tests.agents.world import World, chosen
from tests.support.browser import chromium

pytestmark = [pytest.mark.agents, pytest.mark.timeout(600), pytest.mark.req("G-22", "X-03")]


@pytest.mark.parametrize("name", [name for name in chosen() if name in {"claude", "codex"}])
def test_a_person_approves_a_call_of_an_agent_program_on_the_page(world: World, name: str) -> None:
    program = PROGRAMS[name]
    try:
        world.on_path = program.on_path()
    except Missing as error:
        pytest.skip(f"{name} cannot be installed here: {error}")
    program.prepare(world.home, world.project, world.model.url)
    world.fleethook("install", name, "--yes")
    try:
        with chromium() as browser, ThreadPoolExecutor(1) as thread:
            page = browser.new_page()
            page.set_default_timeout(60_000)
            page.goto(world.fleethook("open", "--no-browser").strip())
            page.get_by_role("link", name="Inbox").click()
            for verb, ran in (("Approve", "needs-a-person Approve\n"), ("Deny", "")):
                running = thread.submit(world.run, program, f"echo needs-a-person {verb} | tee -a ran.txt")
                question = page.get_by_role("form").filter(has_text=f"needs-a-person {verb}")
                expect(question).to_contain_text("policy P-6 asks a person", timeout=60_000)
                question.get_by_label("Comment").fill(f"{verb} it is")
                question.get_by_role("button", name=re.compile(f"{verb}$")).click()
                assert running.result(timeout=120) == ran
            assert "Deny it is" in world.model.told, "the model reads the person's comment"
    finally:
        world.fleethook("uninstall", name, "--yes")
