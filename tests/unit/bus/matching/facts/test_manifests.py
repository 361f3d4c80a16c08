"""Packages that a text adds to a manifest, of whole files and of parts of them."""

from __future__ import annotations

import pytest

from bus.events import Event
from bus.matching.facts.manifests import manifest_of, packages_in
from bus.matching.facts.package_names import imitated, kinds_of_added

PYPROJECT = """
[project]
name = "reqeusts"
version = "1.0"
keywords = ["nunpy"]
dependencies = [
    "httpx>=0.27",  # the client
    'pandas[sql] ; python_version > "3.9"',
]
[project.optional-dependencies]
dev = ["ruff", "mypy>=1"]
[tool.poetry.dependencies]
python = "^3.11"
flask = "^3.0"
lib = { git = "https://github.com/acme/lib.git", rev = "dead2b8c" }
[tool.ruff]
line-length = 100
select = ["E", "F"]
"""


@pytest.mark.req("X-07")
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("requirements.txt", "requirements.txt"),
        ("deps/requirements-dev.txt", "requirements.txt"),
        ("requirements/base.in", "requirements.txt"),
        ("/a/b/Cargo.toml", "cargo.toml"),
        ("web/package.json", "package.json"),
        ("package-lock.json", ""),
        ("notes.txt", ""),
        ("tsconfig.json", ""),
    ],
)
def test_which_files_are_manifests(path: str, kind: str) -> None:
    assert manifest_of(path) == kind


@pytest.mark.req("X-07")
@pytest.mark.parametrize(
    ("path", "text", "specs"),
    [
        ("requirements.txt", "# tools\nflask==3.0 \n-r base.txt\n--no-binary :all:\nsix\n", ["flask==3.0", "six"]),
        ("requirements.txt", "-e git+https://example.com/a.git#egg=a", ["git+https://example.com/a.git#egg=a"]),
        ("requirements.txt", "Install these packages first.\nimport os as system", []),
        (
            "pyproject.toml",
            PYPROJECT,
            [
                "httpx>=0.27",
                'pandas[sql] ; python_version > "3.9"',
                "ruff",
                "mypy>=1",
                "flask",
                "git+https://github.com/acme/lib.git@dead2b8c",
            ],
        ),
        ("pyproject.toml", '    "django>=4",\n    "celery",', ["django>=4", "celery"]),
        ("pyproject.toml", 'line-length = 100\nversion = "1.2"', []),
        ("Cargo.toml", '[package]\nname = "a"\nversion = "0.1"\n[dependencies]\nserde = { version = "1" }', ["serde"]),
        ("Cargo.toml", 'tokio = "1"', ["tokio"]),
        (
            "package.json",
            '{"name": "a", "version": "1.0.0", "engines": {"node": ">=18"}, "dependencies": {"react": "^18"}}',
            ["react"],
        ),
        ("package.json", '  "scripts": {"test": "vitest"},\n  "@types/node": "~20.1.0",', ["@types/node"]),
        ("package.json", '"lib": "github:acme/lib", "homepage": "https://example.com"', ["github:acme/lib"]),
        ("composer.json", '{"require": {"php": "^8.2", "laravel/framework": "^11.0"}}', ["laravel/framework"]),
        (
            "Gemfile",
            "source 'https://rubygems.org'\ngem 'rails', '~> 7'\ngem \"a\", github: 'b/a'",
            ["rails", "git+b/a"],
        ),
        (
            "go.mod",
            "module example.com/app\n\ngo 1.22\n\nrequire (\n\tgolang.org/x/net v0.1.0\n)",
            ["golang.org/x/net"],
        ),
        ("environment.yml", "name: a\ndependencies:\n  - numpy=1.26\n  - pip:\n", ["numpy"]),
    ],
)
def test_the_packages_of_a_manifest(path: str, text: str, specs: list[str]) -> None:
    assert [package.spec for package in packages_in(manifest_of(path), text)] == specs


@pytest.mark.req("X-07")
def test_only_what_an_edit_adds_to_a_manifest_counts() -> None:
    def kinds(tool: str, **given: object) -> set[str]:
        return set(kinds_of_added(Event(type="tool:pre_execute", tool=tool, input=given)))

    assert kinds("edit", path="requirements.txt", old="reqeusts", new="requests") == set()
    assert kinds("edit", path="requirements.txt", old="requests", new="reqeusts") == {"imitation"}
    assert kinds("write", path="README.md", content="reqeusts") == set()
    assert kinds("write", path="Dockerfile", content="FROM a\nRUN pip install reqeusts && x") == {"imitation"}
    assert kinds("write", path="setup.sh", content="npm ci\nnpm install lodash") == set()
    assert kinds("write", path="setup.py", content="setup(install_requires=['flask', 'reqeusts>=2'])") == {"imitation"}
    patch = "*** Begin Patch\n*** Update File: requirements.txt\n@@\n flask\n-reqeusts\n+numpyy\n*** End Patch"
    assert kinds("edit", path="requirements.txt", patch=patch) == {"imitation"}
    assert kinds("edit", path="requirements.txt", patch=patch.replace("+numpyy", "+numpy")) == set()


@pytest.mark.req("X-07")
def test_of_a_short_name_only_a_doubled_or_a_missing_sign_counts() -> None:
    assert imitated("javascript", "zodd") == "zod"
    assert imitated("javascript", "lodash.js") == "lodash"
    assert imitated("rust", "serd") == "serde"
    assert imitated("go", "github.com/sirupsen/logruss") == "github.com/sirupsen/logrus"
    assert imitated("php", "laravel/framwork") == "laravel/framework"
    assert [name for name in ("zed", "next", "vite", "zag") if imitated("javascript", name)] == []
