"""The native hook command as a program: its constants, its building, and what is done without it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from bus.shim import gateway_link, main, native, outage, slow, stop_flag
from bus.shim.native import build_hook

pytestmark = pytest.mark.req("X-14")

TEXT = native.SOURCE.read_text(encoding="utf-8")


def constant(name: str) -> str:
    found = re.search(rf"^#define {name} +(.+?)(?: */\*.*)?$", TEXT, re.MULTILINE)
    assert found is not None, name
    return found[1]


def test_it_has_the_constants_of_the_python_one() -> None:
    assert constant("VERSION").strip('"') == version("fleethook")
    assert f'"{constant("BY").split(chr(34))[1]}{version("fleethook")}"'.encode() == b'"' + main.BY + b'"'
    assert eval(constant("MAX_STDIN").replace("u", "")) == main.MAX_STDIN
    assert eval(constant("SPOOL_LIMIT").replace("ll", "")) == outage.SPOOL_LIMIT
    assert constant("HEADER").strip('"').encode() == main.HEADER
    assert constant("STOP_HEADER").strip('"').encode() == stop_flag.HEADER
    assert constant("DRAINER").strip('"') == outage.DRAINER
    assert constant("CHECK").strip('"') == stop_flag.CHECK
    assert int(constant("DOES_NOT_FIT")) == stop_flag.DOES_NOT_FIT
    for module, names in (
        (main, ("CONNECT_S", "ACK_S", "OUTAGE_S", "OUTAGE_PART")),
        (outage, ("MARKED_S", "RETRY_S")),
        (slow, ("SLICE_S", "LATE_S", "AGAIN_S")),
        (gateway_link, ("SEND_S", "SEND_BYTES", "LOOK_S", "MOST_HEAD", "LATE_S")),
    ):
        assert {name: float(constant(name)) for name in names} == {name: getattr(module, name) for name in names}
    for name in outage.KEPT_ENV:
        assert f'"{name.decode()}="' in TEXT
    for word in outage.RETURNS:
        assert f'"{word}"' in TEXT


def test_without_a_compiler_there_is_none_and_nothing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    alone(monkeypatch, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert native.prepare(tmp_path / "data") == native.Native()
    with pytest.raises(native.NotBuilt, match="no C compiler"):
        native.build(tmp_path / "x")


@pytest.mark.parametrize("script", ["echo 'hook.c:1: error: no' >&2; exit 1", "exit 0"])
def test_a_compiler_that_fails_leaves_nothing_behind_and_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str
) -> None:
    alone(monkeypatch, tmp_path)
    compiler = tmp_path / "cc"
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    made = native.prepare(tmp_path / "data")
    assert (made.path, made.built) == ("", False)
    assert "failed: " in made.why
    assert list((tmp_path / "data" / "native").iterdir()) == []


def test_it_is_built_into_the_users_own_directory_and_found_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, native_hook: str
) -> None:
    alone(monkeypatch, tmp_path)
    made = native.prepare(tmp_path / "data")
    assert made == native.Native(str(tmp_path / "data" / "native" / native.NAME), built=True)
    assert native.prepare(tmp_path / "data") == native.Native(made.path)
    assert native.is_current(made.path)
    native.forget(native.Native(made.path))
    assert native.find(tmp_path / "data") == made.path, "one that was there before stays"
    native.forget(made)
    assert native.find(tmp_path / "data") == ""
    assert native.is_current(native_hook)
    assert not native.is_current(sys.executable)


@pytest.mark.parametrize("words", [[], ["x"], ["--help"], [sys.executable, "-c", "print(1)", "x"]])
def test_other_words_are_no_call_of_it(native_hook: str, words: list[str]) -> None:
    """Neither a block nor an answer."""
    done = subprocess.run([native_hook, *words], input=b"{}", capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (64, b"")
    assert done.stderr.startswith(b"usage: ")


@pytest.mark.parametrize(("last", "answer"), [([], (0, b"")), (["open", "{}"], (0, b"{}")), (["closed"], (2, b""))])
def test_without_python_too_it_answers_as_the_launcher_would(
    native_hook: str, tmp_path: Path, last: list[str], answer: tuple[int, bytes]
) -> None:
    words = [
        native_hook,
        str(tmp_path / "python"),
        "-I",
        "-S",
        "/launcher.py",
        "claude",
        "Stop",
        str(tmp_path / "none"),
    ]
    done = subprocess.run([*words, *last], input=b"{}", capture_output=True, check=False)
    assert (done.returncode, done.stdout) == answer
    assert done.stderr.startswith(b"fleethook: this hook fails closed") == (last == ["closed"])


def test_a_wheel_has_it_with_the_tags_of_its_platform(native_hook: str) -> None:
    hook: Any = build_hook.NativeHook()
    said: dict[str, Any] = {"force_include": {}}
    hook.initialize("editable", said)
    assert said == {"force_include": {}}, "`fleethook install` builds it there"
    hook.initialize("standard", said)
    ((built, place),) = said["force_include"].items()
    assert place == f"bus/shim/native/{native.NAME}"
    assert native.is_current(built)
    assert said["pure_python"] is False
    assert said["tag"].startswith("py3-none-m")
    assert native_hook != built
    hook.finalize("standard", said, "")
    assert not Path(built).exists()


def test_a_wheel_without_a_compiler_is_one_for_every_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    warned: list[str] = []
    hook: Any = build_hook.NativeHook()
    hook.app = type("App", (), {"display_warning": staticmethod(warned.append)})
    said: dict[str, Any] = {"force_include": {}}
    monkeypatch.setenv("FLEETHOOK_NATIVE_HOOK", "0")
    hook.initialize("standard", said)
    assert warned == []
    monkeypatch.delenv("FLEETHOOK_NATIVE_HOOK")
    monkeypatch.setenv("PATH", str(tmp_path))
    hook.initialize("standard", said)
    assert said == {"force_include": {}}
    assert "no C compiler" in warned[0]


def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As where the package was installed from a wheel without the program."""
    package = tmp_path / "site-packages" / "bus" / "shim" / "native"
    package.mkdir(parents=True)
    shutil.copy(native.SOURCE, package)
    monkeypatch.setattr(native, "FOLDER", package)
