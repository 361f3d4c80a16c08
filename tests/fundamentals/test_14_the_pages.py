"""The pages: what a gateway serves to browsers comes with the package, the libraries of others with their licences."""

from __future__ import annotations

from importlib import resources

import pytest

from workers.gateway.pages.static_files import static_files


@pytest.mark.req("G-22")
def test_the_files_of_the_pages_are_in_the_package() -> None:
    files = static_files()

    assert b'<script type="module" src="pages/app.js">' in files["index.html"].body
    assert {"app.js", "style.css", "views/live.js", "vendor/lit-html/lit-html.js"} <= set(files)
    vendor = resources.files("workers.gateway.pages") / "static" / "vendor"
    assert all((folder / "LICENSE").is_file() for folder in vendor.iterdir() if folder.is_dir())
