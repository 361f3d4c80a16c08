"""The files of the pages: complete, without HTML made of texts, without requests elsewhere (issue 12, item 11)."""

from __future__ import annotations

import posixpath
import re

import pytest

from tests.support.rows import rows
from workers.gateway.pages.static_files import INDEX, static_files

pytestmark = pytest.mark.req("G-22")

OURS = {name: file.body.decode() for name, file in static_files().items() if not name.startswith("vendor/")}
IMPORT = re.compile(r"""(?:from|import)\s*\(?\s*["'](\.[^"']+)["']""")


def test_every_file_that_the_page_loads_is_there_and_nothing_else_is_served() -> None:
    known = static_files()
    found, todo = {INDEX}, re.findall(r'(?:src|href)="pages/([^"]+)"', OURS[INDEX])
    while todo:
        name = todo.pop()
        assert name in known, name
        if name not in found:
            found.add(name)
            text = known[name].body.decode() if name.endswith(".js") else ""
            todo += [posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) for path in IMPORT.findall(text)]
    assert found == set(known)


@rows("name", sorted(name for name in OURS if name.endswith((".js", ".html"))))
def test_no_text_can_become_html_or_a_style_and_nothing_comes_from_elsewhere(name: str) -> None:
    text = OURS[name]
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "unsafeHTML",
        "document.write",
        "eval(",
        " style=",
    ):
        assert forbidden not in text, forbidden
    assert not re.search(r"""["'`]https?://""", text)
    assert not re.search(r"<script(?! type=\"module\" src=)", text)
    assert not re.search(r"\son[a-z]+=", text), "handlers are set by lit-html's @"


def test_each_library_has_its_licence_and_its_version_beside_it() -> None:
    from importlib import resources

    vendor = resources.files("workers.gateway.pages") / "static" / "vendor"
    notes = (vendor / "README.md").read_text("utf-8")
    for folder in (one for one in vendor.iterdir() if one.is_dir()):
        assert "Copyright" in (folder / "LICENSE").read_text("utf-8")
        assert re.search(rf"`{folder.name}/` .*\| \d+\.\d+\.\d+ \|", notes), folder.name
