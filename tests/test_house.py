"""The house as assertions: where things may be, what may import what, how long a file may be."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from bus import errors
from bus.wire.keys import DECLARED
from tests.support.schedule import SECONDS

ROOT = Path(__file__).parents[1]
SOURCES = sorted((*ROOT.glob("bus/**/*.py"), *ROOT.glob("workers/**/*.py")))
MOST_LINES = 400
MOST_FILES = 25
CODE = {".py", ".lua", ".js", ".yaml"}

# A package imports only what is to its right (or itself). Packages between two ">" do not import each other.
ORDER = {
    "workers": """
        cli > fork_source > roles > bench > dispatcher jobs demo gateway > simulation > admin > supervisor
        > carrier evaluator host
        > workflows > approvals memory plugins > fleet_control > housekeeping > records
        > runtime coverage > delivery > supervision > waiting
    """,
    "bus": """
        testing > chain workflow_steps > client runners plugins probe stop_check > transport hooksets forge requests
        > memory hookfiles installs sdk judge > agents host_requests > wire > config > http tally > tracing > hooks secrets
        > workflows > matching pacing shim > system > errors outcomes > tool_arguments tools verdicts
        > events event_folder tool_inference > ids launcher shell tool_names tool_patches tool_programs tool_words
        > lazy
    """,
}
TWICE = {
    "Hook",  # Forge's own class
    "HookEvent",  # Forge's, Gobby's, and a message of Gobby's WebSocket
    "Ping",  # the live feed and Gobby's WebSocket have messages of these names
    "Subscribe",
    "Unsubscribe",
}
"""The public classes whose names another system or protocol gives, and that several modules define."""
REGISTERED = {"DIALECT", "HOOKS", "PROGRAM"}
"""The names under which a registry finds its members; loading them by name is an import too."""

# Each outside thing is known by one module (or folder); everybody else goes through it.
KNOWN_BY = {
    "redis": {"bus.wire.connections", "workers.bench"},
    "aiohttp": {
        "bus.http.connector",
        "bus.http.vetted_resolver",
        "bus.http.webhook_client",
        "workers.bench",
        "workers.admin.webhook_listener",
    },
    "rq": {"workers.jobs", "workers.bench"},
    "cel": {"bus.matching.conditions"},
    "re2": {"bus.matching.regexes"},
    "msgpack": {"bus.wire.codec"},
    "yaml": {"bus.config.documents", "bus.hooksets.guards"},
    "tenacity": {"workers.delivery.retries", "workers.bench"},
    "rich": {"workers.cli"},
    "platformdirs": {"bus.system.directories"},
    "click": {"workers.cli"},
    "starlette": {"workers.gateway"},
    "uvicorn": {"workers.gateway.server", "workers.gateway.protocols"},
    "prometheus_client": {"workers.gateway.metric_families"},
    "opentelemetry": {"bus.tracing.spans"},
    "jinja2": {"bus.workflows.templates"},
    "mcp": {"workers.gateway.mcp"},
    "mcp_types": {"workers.gateway.mcp"},
}


def name_of(path: Path) -> str:
    """The module name of a source file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path) for path in SOURCES}


class Nodes(NamedTuple):
    """What the tests ask of a file's syntax tree, which takes seconds to make for all files."""

    top: tuple[ast.stmt, ...]
    imports: tuple[ast.Import | ast.ImportFrom, ...]
    calls: tuple[ast.Call, ...]
    classes: tuple[ast.ClassDef, ...]


@cache
def nodes_of(path: Path) -> Nodes:
    """The nodes of a file, in functions and under TYPE_CHECKING too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    every = list(ast.walk(tree))
    return Nodes(
        tuple(tree.body),
        tuple(node for node in every if isinstance(node, ast.Import | ast.ImportFrom)),
        tuple(node for node in every if isinstance(node, ast.Call)),
        tuple(node for node in every if isinstance(node, ast.ClassDef)),
    )


def last_name(node: ast.expr) -> str:
    """The name that is called: `keys` of `self.keys`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def imports_of(path: Path) -> set[str]:
    """Every module that a file imports, by its full name."""
    found: set[str] = set()
    nodes = nodes_of(path)
    for node in nodes.imports:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        else:
            assert node.level == 0, f"{path}: relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found.update(names if names <= MODULES else {*names, node.module or ""})
    for call in nodes.calls:
        if last_name(call.func) == "import_module":
            found.update(members_of(call.args[0]))
    return found


def members_of(name: ast.expr) -> set[str]:
    """The modules that a registry loads by name: those of the folder before the first `{` that hold a registered name."""
    if not isinstance(name, ast.JoinedStr) or not isinstance(name.values[0], ast.Constant):
        return set()
    folder = str(name.values[0].value).rstrip(".")
    return {name_of(path) for path in SOURCES if name_of(path).startswith(f"{folder}.") and is_registered(path)}


def is_registered(path: Path) -> bool:
    """Whether a module holds a name under which a registry finds it."""
    names = [
        node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        for node in nodes_of(path).top
        if isinstance(node, ast.Assign | ast.AnnAssign)
    ]
    return any(isinstance(name, ast.Name) and name.id in REGISTERED for name in names)


@cache
def graph() -> dict[str, set[str]]:
    """What each module imports; read when a test asks, since every worker of a run imports this file."""
    return {name_of(path): imports_of(path) for path in SOURCES}


def test_bus_never_imports_workers() -> None:
    """The domain does not know what runs it."""
    guilty = [
        name
        for name, wants in graph().items()
        if name.startswith("bus") and any(w.startswith("workers") for w in wants)
    ]
    assert guilty == []


def test_imports_only_go_down() -> None:
    """No circle among modules, not even inside functions; the public face (`bus/__init__`) is above all of them."""
    ours = {
        name: {want for want in wants if want in graph() and want not in {name, "bus"}}
        for name, wants in graph().items()
    }
    ours.pop("bus")
    state: dict[str, int] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if state.get(name) == 2:
            return
        assert state.get(name) != 1, "circle: " + " -> ".join((*path[path.index(name) :], name))
        state[name] = 1
        for want in sorted(ours.get(name, ())):
            visit(want, (*path, name))
        state[name] = 2

    for name in ours:
        visit(name, ())


def test_packages_import_only_what_is_below_them() -> None:
    """The packages of both trees are in the order of `docs/architecture.md`, and each import goes down in it."""
    rank = {
        f"{tree}.{package}": place
        for tree, order in ORDER.items()
        for place, group in enumerate(order.split(">"))
        for package in group.split()
    }
    guilty = []
    for name, wants in graph().items():
        mine = ".".join(name.split(".")[:2])
        if name in {"bus", "workers", "workers.__main__"}:
            continue
        assert mine in rank, f"{mine} has no place in ORDER"
        for want in wants & graph().keys():
            theirs = ".".join(want.split(".")[:2])
            if (
                theirs in rank
                and theirs != mine
                and mine.split(".")[0] == theirs.split(".")[0]
                and rank[mine] >= rank[theirs]
            ):
                guilty.append(f"{name} -> {want}")
    assert guilty == []


def test_a_folder_has_few_files() -> None:
    """At most 25 code files a folder, of each language: Python, Lua, JavaScript, the guards' YAML."""
    code = [path for top in ("bus", "workers") for path in (ROOT / top).rglob("*") if path.suffix in CODE]
    counts = Counter((str(path.parent.relative_to(ROOT)), path.suffix) for path in code)
    assert {folder: n for folder, n in counts.items() if n > MOST_FILES} == {}


@pytest.mark.parametrize("kind", ["unit", "live"])
def test_unit_and_live_tests_mirror_the_packages(kind: str) -> None:
    """A test of the packages is in the folder of the package that it tests."""
    tests = [path for top in ("bus", "workers") for path in ROOT.glob(f"tests/{kind}/{top}/**/test_*.py")]
    assert len(tests) > 40
    assert [path for path in tests if not (ROOT / path.parent.relative_to(ROOT / "tests" / kind)).is_dir()] == []


def test_a_file_answers_one_question_in_few_lines() -> None:
    """At most 400 lines a file."""
    long = {name_of(path): n for path in SOURCES if (n := path.read_text(encoding="utf-8").count("\n")) > MOST_LINES}
    assert long == {}


def test_a_class_name_means_one_thing() -> None:
    """No two modules define a public class of the same name, but for those that other systems name."""
    modules: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in nodes_of(path).top:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules.setdefault(node.name, []).append(name_of(path))
    several = {name: where for name, where in modules.items() if len(where) > 1}
    assert {name: where for name, where in several.items() if name not in TWICE} == {}
    assert several.keys() == TWICE, "TWICE has names that are defined once"


@pytest.mark.parametrize("thing", sorted(KNOWN_BY))
def test_one_module_knows_each_outside_thing(thing: str) -> None:
    """A library is imported in one place, so it can be changed in one place."""
    allowed = KNOWN_BY[thing]
    guilty = [
        name
        for name, wants in graph().items()
        if any(want == thing or want.startswith(f"{thing}.") for want in wants)
        and not any(name == place or name.startswith(f"{place}.") for place in allowed)
    ]
    assert guilty == []


def test_the_shim_needs_nothing_but_c_modules() -> None:
    """The shim and its launcher import no Python-level module at their start (3 ms each would be felt at every call)."""
    for name in (
        "bus.shim.imports",
        "bus.shim.main",
        "bus.shim.outage",
        "bus.shim.slow",
        "bus.shim.stop_flag",
        "bus.launcher",
    ):
        tree = ast.parse((ROOT / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8"))
        top = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
        assert top <= {"sys", "posix", "time", "_socket", "marshal", "_imp", "select", "fcntl"}, (name, top)
        first = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
        assert not any(str(want).startswith(("bus", "workers")) for want in first), (name, first)
        assert all(want.startswith("bus.shim.") for want in graph()[name] if want.startswith(("bus", "workers")))


def test_importing_bus_is_cheap() -> None:
    """`import bus` pulls in neither redis, rq, asyncio, ssl nor typing, and few modules at all."""
    code = "import sys; before = set(sys.modules); import bus; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"redis", "rq", "asyncio", "ssl", "typing", "msgspec", "json"}
    assert len(loaded) < 10, loaded


def test_importing_the_pytest_plugin_is_cheap() -> None:
    """Every run of pytest loads it where Fleethook is installed; the engine waits for the first test that needs it."""
    code = "import sys, bus.testing.plugin; print(*sorted(name for name in sys.modules if name.startswith('bus')))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["bus", "bus.testing", "bus.testing.plugin"]


def test_public_names_are_complete_and_sorted() -> None:
    """Every name in `__all__` exists."""
    bus = importlib.import_module("bus")
    assert bus.__all__ == sorted(bus.__all__)
    for name in bus.__all__:
        assert getattr(bus, name) is not None


def test_errors_form_one_tree() -> None:
    """Every exception that is defined in the packages descends from FleethookError (the shim has its own world)."""
    for path in SOURCES:
        if path.parent.name == "shim":
            continue
        for node in nodes_of(path).classes:
            if any("Exception" in ast.unparse(b) or "Error" in ast.unparse(b) for b in node.bases):
                made = getattr(importlib.import_module(name_of(path)), node.name, None)
                if isinstance(made, type) and issubclass(made, BaseException):
                    assert issubclass(made, errors.FleethookError), f"{path}: {node.name}"


def test_every_lua_script_names_its_keys_and_arguments() -> None:
    """A script's head is its contract."""
    for path in sorted(ROOT.glob("bus/wire/scripts/*/*.lua")):
        if path.parent.name == "shared":
            continue
        head = path.read_text(encoding="utf-8").split("\n\n")[0]
        assert head.startswith("-- "), path.name
        assert "KEYS" in head, path.name
        assert "ARGV" in head, path.name


def test_lua_scripts_have_different_names() -> None:
    """They are called by their names without their folders."""
    names = Counter(path.name for path in ROOT.glob("bus/wire/scripts/*/*.lua"))
    assert [name for name, count in names.items() if count > 1] == []


def test_keys_in_code_are_declared() -> None:
    """Every literal first argument of `keys(...)` is in bus/wire/keys.py."""
    known = {key.pattern.split(":")[0].rstrip("*") for key in DECLARED}
    for path in SOURCES:
        for call in nodes_of(path).calls:
            if last_name(call.func) in {"keys", "_keys"} and call.args:
                first = call.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    assert first.value.split(":")[0] in known, f"{path}: {first.value}"


def test_nothing_points_outside_a_clone() -> None:
    """No committed file names a folder beside the clone."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    words = ("../" + "shared", "/work/" + "shared", "../." + "library", "/work/" + "main")
    guilty = []
    for name in filter(None, tracked):
        path = ROOT / name
        if path.is_file() and path.stat().st_size < 1_000_000:
            text = path.read_text(encoding="utf-8", errors="ignore")
            guilty += [name for word in words if word in text]
    assert guilty == []


def test_the_long_test_files_are_there_and_the_longest_is_first() -> None:
    """Else a file that was renamed starts last, unnoticed: give it its new name in tests/support/schedule.py."""
    assert [name for name in SECONDS if not (ROOT / name).is_file()] == []
    assert list(SECONDS.values()) == sorted(SECONDS.values(), reverse=True)
