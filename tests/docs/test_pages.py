"""The pages do what they say: every console block runs, every file block loads, every link and name leads somewhere."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator

import click
import pytest
import yaml

from bus.hooksets.hookfile import parse_hook_file
from tests.docs.blocks import FILES, ROOT, RUN, SHOWN, Block, blocks, commands, pages
from tests.docs.reader import GUARDED, Reader
from tests.docs.reader import reader as started
from tests.support.rows import rows
from tests.test_house import ORDER
from workers.cli import root

OWN_TESTS = {"docs/operations.md": "tests/flow/test_operations.py"}
"""Pages whose commands are typed on several hosts, and the tests that run them there."""

pytestmark = pytest.mark.timeout(150)  # a page is some twenty commands, and other tests share the cores

PAGES = pages()
BLOCKS = [block for page in PAGES if page not in OWN_TESTS for block in blocks(page)]
RUNNABLE = sorted(
    {block.page for block in BLOCKS if block.language in RUN and not block.not_run},
    key=lambda page: (page not in GUARDED, page),
)
PROGRAMS = [
    f"docs/{name}.md"
    for name in (
        *("plugins", "claude-plugins", "workflows", "prompt-hooks", "mcp", "limits", "backtest", "guards"),
        *("importing", "gobby"),
    )
]
"""Pages about what users program: each of their files is used by one of their commands."""
OWN_FILE = "~/.config/fleethook/fleethook.yaml"
"""The reader's own file, which is in force for every command."""
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`(fleethook [^`]+)`")
_ID = re.compile(r"\b[BPFGIX]-\d\d\b")
_WORD = re.compile(r"^[a-z][a-z|-]*$")
_PATH = re.compile(r"`((?:bus|workers|tests|docs|docker|examples)/[\w./-]*)`")


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    """One reader and one running fleet for all pages."""
    with started() as one:
        yield one


@pytest.mark.parametrize("page", RUNNABLE)
def test_a_page_does_what_it_says(page: str, reader: Reader) -> None:
    """Its console and Python blocks run in their order, in a fresh home, and write what the page shows."""
    reader.read(page, blocks(page))


@pytest.mark.parametrize("page", OWN_TESTS)
def test_a_page_of_several_hosts_has_a_test_of_its_own(page: str) -> None:
    """The test reads the page itself, so a command that is added there is run."""
    assert page.rpartition("/")[2] in (ROOT / OWN_TESTS[page]).read_text(encoding="utf-8")


@rows("block", BLOCKS, ids=lambda block: block.place)
def test_a_block_is_of_a_known_kind(block: Block) -> None:
    """A block is run, or a named file, or a listing; only what says why is not run."""
    assert block.language in RUN | FILES | SHOWN, f"{block.place}: which language is this?"
    if block.language in FILES - RUN - {"json"}:
        assert block.file, f"{block.place}: which file is this? Name it in a comment"
    assert not block.not_run or len(block.not_run.split()) > 2, f"{block.place}: why is it not run?"


@rows("block", [one for one in BLOCKS if one.language in FILES], ids=lambda block: block.place)
def test_a_file_block_loads(block: Block) -> None:
    """Every file block is a whole file that its real loader takes."""
    if block.language == "json":
        json.loads(block.text)
    elif block.language == "python":
        compile(block.text, block.place, "exec")
    elif block.language == "sh":
        subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)
    elif block.file.endswith("fleethook.yaml"):
        read = parse_hook_file(block.text, "user" if block.file.startswith("~/") else "project")
        # What an example imports, and its plugins, are on the reader's machine, and not on this one.
        elsewhere = ("is not imported: there is no such", "is not there: there is no file")
        wrong = [str(problem) for problem in read.problems if not any(text in str(problem) for text in elsewhere)]
        assert not wrong, f"{block.place}: {wrong}"
    elif block.language == "yaml":
        list(yaml.safe_load_all(block.text))


@rows("page", PROGRAMS)
def test_a_file_of_a_page_about_programming_is_used_by_its_commands(page: str) -> None:
    """Its own file, a folder that it is in, or a file that is used takes part in something that runs."""
    found = blocks(page)
    run = "".join(block.text for block in found if block.language in RUN and not (block.file or block.not_run))
    unused = [
        block.place
        for block in found
        if block.file and block.file != OWN_FILE and not any(part in run for part in block.file.strip("~/").split("/"))
    ]
    assert unused == [], "no command uses these files"


@rows("block", [one for one in BLOCKS if one.not_run], ids=lambda block: block.place)
def test_what_cannot_run_here_is_checked_as_far_as_it_can(block: Block) -> None:
    """It is shell, and every command of Fleethook in it exists with its options."""
    if block.language == "console":
        for command in commands(block):
            subprocess.run(["bash", "-n"], input=command.line, text=True, check=True)
            for part in re.split(r"[|;&\n]+", command.line):
                if (start := part.find("fleethook ")) >= 0 and not part[:start].strip():
                    assert_command_exists(part[start:], block.place)


@rows("block", [one for one in BLOCKS if one.language in SHOWN], ids=lambda block: block.place)
def test_commands_in_a_listing_exist(block: Block) -> None:
    """What looks like a command there can be typed."""
    for line in block.text.splitlines():
        for part in line.split("|"):
            if part.strip().startswith("fleethook "):
                assert_command_exists(re.split(r" {2,}| > ", part.strip())[0], block.place)


def test_the_index_has_every_page() -> None:
    linked = set(_LINK.findall((ROOT / "docs/index.md").read_text(encoding="utf-8")))
    assert {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")} - linked == {"index.md"}


@rows("page", PAGES)
def test_commands_in_the_text_exist(page: str) -> None:
    """`fleethook ...` between backticks names a command, and options that it has."""
    prose = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for found in _CODE.finditer(prose):
        assert_command_exists(" ".join(found[1].split()), page)


def assert_command_exists(line: str, place: str) -> None:
    """Walk the command tree along the words of a line, as far as they are plain ones, and see that its options exist."""
    command: click.Command = root
    context = click.Context(root)
    for word in shlex.split(line, comments=True)[1:]:
        if word.startswith("--"):
            known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
            assert word.partition("=")[0] in known, f"{place}: `{line}`: there is no option {word}"
        elif isinstance(command, click.Group):
            if not _WORD.match(word):
                return
            names = [command.get_command(context, name) for name in word.split("|")]
            assert None not in names, f"{place}: `{line}`: there is no command {word}"
            command = names[0] or command


def headings(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in found}


@rows("page", PAGES)
def test_paths_in_the_text_exist(page: str) -> None:
    """A path of the repository between backticks is there."""
    missing = [path for path in _PATH.findall((ROOT / page).read_text(encoding="utf-8")) if not there(path)]
    assert not missing, f"{page}: {missing}"


def there(path: str) -> bool:
    """Whether a path is there; `NAME` and `KIND` stand for a file that somebody adds."""
    folder, _, last = path.rstrip("/").rpartition("/")
    return (ROOT / (folder if last.isupper() or last.partition(".")[0].isupper() else path)).exists()


def test_messages_in_the_text_are_said() -> None:
    """What the troubleshooting page explains is said by the code, in these words."""
    rows = re.findall(
        r"^\| `([^`]+ [^`]+)` \|", (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    code = "".join(
        path.read_text(encoding="utf-8") for tree in ("bus", "workers") for path in (ROOT / tree).rglob("*.py")
    )
    assert len(rows) > 5
    assert not [row for row in rows if row not in code]


def test_the_commands_that_refuse_below_an_agent_are_named() -> None:
    """The list of the security page is the one of the code."""
    page = " ".join((ROOT / "docs/security.md").read_text(encoding="utf-8").split())
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "workers/cli").rglob("*.py"))
    guarded = set(re.findall(r'require_person\(f?"([a-z ]+?)(?: --purge| \{\w+\})?"', code))
    assert len(guarded) > 12
    listed = page.partition("Commands that weaken the guards (")[2].partition(")")[0]
    assert guarded == set(re.findall(r"`([a-z ]+)`", listed))


def test_the_map_is_the_tree() -> None:
    """The architecture page names every package, and the import order that tests/test_house.py holds."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    packages = [folder for tree in ("bus", "workers") for folder in (ROOT / tree).iterdir() if any(folder.glob("*.py"))]
    assert not [str(one.relative_to(ROOT)) for one in packages if f"`{one.relative_to(ROOT)}/`" not in text]
    words = " ".join(text.split())
    assert not [tree for tree, order in ORDER.items() if f"{tree} {' '.join(order.split())}" not in words]


@rows("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """No page links to a file or a heading that is not there."""
    for target in _LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        leads_to = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert leads_to.exists(), f"{page} links to {target}"
        if anchor:
            name = str(leads_to.relative_to(ROOT))
            assert anchor in headings(name), f"{page} links to {target}; {name} has {sorted(headings(name))}"


def test_what_the_code_cites_is_here() -> None:
    """Every page, heading and requirement id that code and tests name is in the repository."""
    tracked = subprocess.run(
        ["git", "ls-files", "*.py", "*.lua", "*.md", "*.toml", "Makefile"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    known = set(_ID.findall((ROOT / "docs/requirements.md").read_text(encoding="utf-8")))
    problems = []
    for name in tracked:
        if name.startswith(("tests/golden/", "tests/corpora/")) or not (ROOT / name).is_file():
            continue
        text = (ROOT / name).read_text(encoding="utf-8")
        problems += [f"{name}: {one} is no requirement" for one in set(_ID.findall(text)) - known]
        for page, heading in re.findall(r"(docs/[a-z]+\.md)(?:, \"([^\"]+)\")?", text):
            if not (ROOT / page).is_file():
                problems.append(f"{name}: {page} is not there")
            elif heading and heading.lower().replace(" ", "-") not in headings(page):
                problems.append(f"{name}: {page} has no heading {heading!r}")
        if "(design" + ", section" in text:
            problems.append(f"{name}: says a section of a page that is not in a clone")
    assert not problems, "\n".join(sorted(problems))
