"""`python -m docs.reference`: write every generated page."""

from __future__ import annotations

from docs.reference.pages import DOCS, pages

for name, text in pages().items():
    (DOCS / name).write_text(text, encoding="utf-8")
