"""The code blocks of the pages: what each is, where it stands, and what its page says about running it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

RUN = frozenset({"console", "python"})
FILES = frozenset({"yaml", "json", "python", "sh", "toml"})
SHOWN = frozenset({"text"})
"""Listings and drawings: nothing in them is typed or saved by anybody."""

_FENCE = re.compile(r"^```(\w*)\s*$")
_COMMENT = re.compile(r"^<!-- (not run|file|exit code|keeps running)(?:: (.+))? -->$")
_NAMED = re.compile(r"^(?:#|//) (\S+\.\w+|Procfile)$")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str
    """The page, relative to the repository."""
    line: int
    """The line of its opening fence, counted from 1."""
    language: str
    text: str
    file: str = ""
    """The file that the block is, as the page names it; `~` is the reader's home."""
    not_run: str = ""
    """Why the tests do not run it."""
    exit_code: int = 0
    """How its last command ends."""
    keeps_running: bool = False
    """Whether its last command runs until somebody stops it."""

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One command of a console block, and the lines that the page shows below it."""

    line: str
    shown: tuple[str, ...]


def pages() -> list[str]:
    """The pages of the repository with blocks: every committed or new Markdown file, without the changelog."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    return sorted(name for name in listed if (ROOT / name).is_file() and not name.startswith(("tests/", "CHANGELOG")))


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in their order.

    A comment in the line above a block says what the block itself does not: `<!-- not run: WHY -->`,
    `<!-- file: PATH -->`, `<!-- exit code: 1 -->` or `<!-- keeps running -->`. A file block may name its file in a
    comment of its own first line instead.
    """
    found: list[Block] = []
    lines = (ROOT / page).read_text(encoding="utf-8").split("\n")
    number = 0
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        if opening is None:
            number += 1
            continue
        end = lines.index("```", number + 1)
        body = lines[number + 1 : end]
        said = _COMMENT.match(lines[number - 1]) if number else None
        kind, value = (said[1], said[2] or "") if said else ("", "")
        named = _NAMED.match(body[0]) if body else None
        found.append(
            Block(
                page=page,
                line=number + 1,
                language=opening[1],
                text="\n".join(body) + "\n",
                file=value if kind == "file" else named[1] if named else "",
                not_run=value if kind == "not run" else "",
                exit_code=int(value) if kind == "exit code" else 0,
                keeps_running=kind == "keeps running",
            )
        )
        number = end + 1
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a console block: each line after `$ `, with the lines after `> ` that continue it."""
    found: list[Command] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], ()))
        elif not found:
            raise ValueError(f"{block.place}: {line!r} stands before the first `$ `")
        elif line.startswith("> ") and not found[-1].shown:
            found[-1] = Command(f"{found[-1].line}\n{line[2:]}", ())
        else:
            found[-1] = Command(found[-1].line, (*found[-1].shown, line))
    return found
