"""Packages that a command installs or runs: imitated names, unknown programs, sources that are not pinned."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from bus.matching.facts.package_names import imitated, kinds_of_packages
from bus.matching.facts.package_specs import packages_of
from bus.matching.paths import Place, place_of
from bus.shell import commands
from tests.support.rows import rows

ELSEWHERE = place_of("/home/dev/app", here=False)


def kinds(line: str, place: Place = ELSEWHERE) -> set[str]:
    return {kind for command in commands(line).items for kind in kinds_of_packages(command, place)}


@pytest.mark.req("X-07")
@rows(
    ("line", "specs"),
    [
        ("pip install -r requirements.txt", []),
        ("pip install -U 'requests[socks]>=2' six", ["requests[socks]>=2", "six"]),
        ("pip install -v -i https://x.example requests", ["requests"]),
        ("pip --disable-pip-version-check install requests", ["requests"]),
        ("uv tool run --with rich ruff check .", ["rich", "ruff"]),
        ("uvx --from httpie http GET x", ["httpie"]),
        ("npm i -D vitest @types/node@20", ["vitest", "@types/node@20"]),
        ("npm run build", []),
        ("npx -y -p typescript tsc -b", ["typescript"]),
        ("npx --package=typescript tsc", ["typescript"]),
        ("npx prettier --write src/a.ts", ["prettier"]),
        ("npm create vite@latest app", ["create-vite@latest"]),
        ("pnpm dlx create-vite app", ["create-vite"]),
        ("yarn global add nx", ["nx"]),
        ("cargo install --git https://example.com/t t", ["https://example.com/t", "t"]),
        ("gem install rails", ["rails"]),
        ("npm", []),
        ("pip install", []),
        ("pip uninstall requests", []),
    ],
)
def test_the_packages_of_a_command(line: str, specs: list[str]) -> None:
    assert [package.spec for package in packages_of(commands(line).items[0])] == specs


@pytest.mark.req("X-07")
@rows(
    ("name", "meant"),
    [
        ("reqeusts", "requests"),
        ("request5", "requests"),
        ("requestss", "requests"),
        ("requets", "requests"),
        ("rquests", "requests"),
        ("Requests", ""),
        ("python_dateutil", ""),
        ("pythondateutil", "python-dateutil"),
        ("elasticsearch6", ""),
        ("numpyy", "numpy"),
        ("abcd", ""),
        ("my-own-thing", ""),
    ],
)
def test_a_name_that_imitates_another(name: str, meant: str) -> None:
    assert imitated("python", name) == meant


@pytest.mark.req("X-07")
def test_no_listed_name_imitates_another() -> None:
    text = files("bus.matching.facts").joinpath("popular-packages.txt").read_text(encoding="utf-8")
    python, javascript = text.partition("[python]")[2].split("[javascript]")
    names = {
        "python": [line for line in python.split("\n") if line[:1] not in ("", "[")],
        "javascript": [line for line in javascript.partition("[rust]")[0].split("\n") if line[:1] not in ("", "[")],
    }
    assert min(map(len, names.values())) > 3000
    assert [name for name in names["python"] if imitated("python", name)] == []
    assert [name for name in names["javascript"] if imitated("javascript", name)] == []


@pytest.mark.req("X-07")
@rows(
    ("line", "expected"),
    [
        ("pip install requests", set()),
        ("pip install ./a.whl", set()),
        ("pip install git+https://github.com/a/b", {"unpinned_source"}),
        ("pip install git+https://github.com/a/b@v1.0", {"unpinned_source"}),
        ("pip install 'b @ git+https://github.com/a/b'", {"unpinned_source"}),
        ("pip install git+https://github.com/a/b@dead2b8cdde5913572254cf6dc70b5a6065b86f8#egg=b", set()),
        ("pip install 'https://x.example/b.whl#sha256=0123456789abcdef'", set()),
        ("npm i a/b", {"unpinned_source"}),
        ("npm i a/b#dead2b8", set()),
        ("npm i @a/b", set()),
        ("npm i file:../b", set()),
        ("npm i $PACKAGE", set()),
        ("npx unheard-of-thing", {"unknown_program"}),
        ("npx @unheard/of", {"unknown_program"}),
        ("npx @types/x", set()),
        ("npx github:a/b", {"unpinned_source"}),
        ("ls", set()),
    ],
)
def test_what_has_to_be_looked_at(line: str, expected: set[str]) -> None:
    assert kinds(line) == expected


@pytest.mark.req("X-07")
def test_a_program_that_the_project_has_is_not_unknown(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    (project / ".git").mkdir(parents=True)
    (project / "node_modules" / ".bin").mkdir(parents=True)
    (project / "node_modules" / ".bin" / "our-own-cli").touch()
    (project / "web").mkdir()
    assert kinds("npx our-own-cli", place_of(str(project))) == set()
    assert kinds("cd web && npx our-own-cli", place_of(str(project))) == set()
    assert kinds("npx other-cli", place_of(str(project))) == {"unknown_program"}
    assert kinds("npx our-own-cli", place_of(str(project), here=False)) == {"unknown_program"}
