"""Where paths are: home below a temporary folder, descriptors of the evaluator, and machines whose disk is not here."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.events import Event
from bus.ids import host_name
from bus.matching.paths import event_place, is_outside, located, place_of
from bus.matching.rules import CommandMatch, Rule, judge

DELETES = Rule(commands=(CommandMatch(program=("rm",), touches=("outside_project",)),))


def deletes_outside(command: str, cwd: str, host: str = "") -> bool:
    event = Event(type="tool:pre_execute", tool="bash", cwd=cwd, host=host, input={"command": command})
    return judge(DELETES, event) is not None


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    "path", ["~", "~/", "~/*", "~/precious", "..", "../*", "/tmp", "/tmp/*", "../../..", "/tmp/c?", "/tmp/ci/h*"]
)
def test_home_is_home_below_a_temporary_folder(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/tmp/ci/home")
    place_of.__globals__["_place_of"].cache_clear()
    assert deletes_outside(f"rm -rf {path}", "/tmp/ci/home/app")
    assert not deletes_outside("rm -rf build ./x /tmp/ci/home/app/y /tmp/other/z", "/tmp/ci/home/app")


@pytest.mark.req("X-09")
def test_temporary_files_are_no_home_where_home_is_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers that run as any user have HOME=/."""
    monkeypatch.setenv("HOME", "/")
    place_of.__globals__["_place_of"].cache_clear()
    assert not deletes_outside("rm -rf build /tmp/other/z", "/srv/app")
    for path in ("~", "~/*", "/tmp", "/tmp/*", "..", "/srv", "~/etc"):
        assert deletes_outside(f"rm -rf {path}", "/srv/app"), path


@pytest.mark.req("X-09")
def test_what_holds_the_project_is_outside_below_a_temporary_folder() -> None:
    for path in (
        "/tmp/work",
        "/tmp/work/*",
        "..",
        "/var/tmp/../../tmp/work",
        "/tmp/wor*",
        "/tmp/*k/a[op]p",
        "/tmp/w??k",
    ):
        assert deletes_outside(f"rm -rf {path}", "/tmp/work/app")
    for path in ("/tmp/work/app/x", "/tmp/work/other", "/tmp/build-1", "/tmp/work/b*", "/tmp/work-?"):
        assert not deletes_outside(f"rm -rf {path}", "/tmp/work/app")


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    "word",
    ["/dev/stderr", "/dev/stdout", "/dev/fd/2", "/proc/self/fd/1", "/proc/thread-self/fd/2", "/dev/../dev/stderr"],
)
def test_descriptors_are_not_resolved_as_the_evaluators_own(word: str) -> None:
    place = place_of("/home/dev/app")
    found = located(word, place)
    assert found is not None
    assert found.startswith("/dev/")
    assert not is_outside(found, place)
    files = Rule(commands=(CommandMatch(changes=("/proc/**", "/sys/**", "/root/**", "/tmp/**")),))
    assert judge(files, Event(type="x", cwd="/home/dev/app", input={"command": f"echo x > {word}"})) is None


@pytest.mark.req("X-09")
def test_only_this_hosts_disk_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "link").symlink_to("/etc")
    cwd = str(tmp_path / "app")
    here = Event(type="x", cwd=cwd, host=host_name())
    away = Event(type="x", cwd=cwd, host="another-host")
    assert located("link/passwd", event_place(here)) == "/etc/passwd"
    assert located("link/passwd", event_place(away)) == f"{cwd}/link/passwd"
    assert event_place(away).project == cwd


@pytest.mark.req("X-09")
def test_home_on_another_host_is_told_by_the_directory() -> None:
    assert event_place(Event(type="x", cwd="/home/eve/app", host="another-host")).home == "/home/eve"
    assert deletes_outside("rm -rf ~", "/srv/app", host="another-host")
    assert deletes_outside("rm -rf ..", "/srv/app", host="another-host")
    assert not deletes_outside("rm -rf x", "/srv/app", host="another-host")


@pytest.mark.req("X-09")
def test_paths_of_windows_are_paths() -> None:
    place = place_of("C:\\Users\\dev\\app")
    assert (place.project, place.home, place.here) == ("/c/Users/dev/app", "/c/Users/dev", False)
    for word, outside in (
        ("C:\\Windows", True),
        ("C:\\", True),
        ("C:/Users/dev", True),
        ("c:\\Users\\dev\\app\\x", False),
    ):
        path = located(word, place)
        assert path is not None
        assert is_outside(path, place) is outside, word
