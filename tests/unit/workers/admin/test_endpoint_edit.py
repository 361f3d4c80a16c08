"""Endpoints added, changed and taken out as values: whose they are, what they are called, what stays as it was."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bus.errors import ConfigError, NotFound
from bus.hooksets.hookfile import parse_hook_file
from workers.admin.endpoint_edit import (
    applied,
    assigned,
    derived_id,
    file_changed,
    file_with,
    file_without,
    rotated,
    set_changed,
    set_with,
)

NEW = {"id": "new", "url": "https://h.example/"}


def test_fields_are_read_as_what_they_are() -> None:
    read = assigned(
        [
            "when=event.tool == 'a: b'",
            "events=*",
            "events=[a, b]",
            "retry=[1, 2.5]",
            "timeout=5",
            "enabled=false",
            "headers.X-A=5",
            "description=",
            "old_secrets=",
        ]
    )
    assert read == {
        "when": "event.tool == 'a: b'",
        "events": ["a", "b"],
        "retry": [1, 2.5],
        "timeout": 5,
        "enabled": False,
        "headers.X-A": "5",
        "description": None,
        "old_secrets": None,
    }
    assert applied({"url": "x", "description": "d"}, read)["headers"] == {"X-A": "5"}
    assert "headers" not in applied({"headers": {"X-A": "1"}}, assigned(["headers.X-A="]))


def test_an_id_comes_from_the_host() -> None:
    assert derived_id("https://www.Example.com:8443/x?y", []) == "example-com"
    assert derived_id("https://example.com/", ["example-com", "example-com-2"]) == "example-com-3"
    assert derived_id("https://[::1]:9000/", []) == "1"
    assert derived_id("https://[", []) == "endpoint"


def test_an_entry_without_an_id_is_found_by_its_place(tmp_path: Path) -> None:
    path = tmp_path / "fleethook.yaml"
    path.write_text("endpoints:\n  - url: https://a.example/\n  - url: https://b.example/  # mine\n")
    name = parse_hook_file(path.read_text(), "user", file=str(path)).endpoints[1].id
    edited = file_changed(path, name, lambda entry: {**entry, "timeout": 5})
    assert edited.after == path.read_text() + "    timeout: 5\n"
    assert file_without(path, name).after == "endpoints:\n  - url: https://a.example/\n"
    with pytest.raises(NotFound, match="no endpoint 'other'"):
        file_without(path, "other")


def test_an_imported_one_is_changed_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("endpoints: [{id: theirs, url: 'https://a.example/'}]\n")
    path = tmp_path / "fleethook.yaml"
    path.write_text("import: [{path: more.yaml, dialect: fleethook}]\n")
    with pytest.raises(NotFound, match=r"comes from .*more\.yaml:1, which .* imports; change it there"):
        file_changed(path, "theirs", dict)


def test_other_mistakes_of_the_file_are_nobodys_business_and_ours_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fleethook.yaml"
    path.write_text("hooks: [{on: '*'}]\nendpoints: [{url: 5}]\n")
    assert "new" in {one.id for one in file_with(path, NEW).read.endpoints}
    with pytest.raises(ConfigError, match=r"\Aretry has to be"):
        file_with(path, {**NEW, "retry": "often"})
    with pytest.raises(ConfigError, match="unknown key"):
        file_with(path, {**NEW, "colour": "red"})
    path.write_text("endpoints:\n  - {id: bad, url: 'https://a.example/', retry: often}\n")
    with pytest.raises(ConfigError, match=r"fleethook\.yaml:2:\d+: retry has to be"):
        file_changed(path, "bad", lambda entry: {**entry, "timeout": 5})


@pytest.mark.parametrize(
    ("before", "allow"),
    [
        ("", ["h:1"]),
        ("network:\n  allow:\n    - a:1  # one\n", ["a:1", "h:1"]),
        ('network: {allow: ["h:1"]}\n', ["h:1"]),
        ('{"hooks": []}', ["h:1"]),
        ("network:\n", None),
    ],
)
def test_a_place_is_opened_beside_the_others(tmp_path: Path, before: str, allow: list[str] | None) -> None:
    path = tmp_path / "fleethook.yaml"
    path.write_text(before)
    if allow is None:
        with pytest.raises(ConfigError, match="network is not a mapping"):
            file_with(path, NEW, "h:1")
    else:
        edited = file_with(path, NEW, "h:1")
        assert list(edited.read.network_allow) == allow
        assert "# one" in edited.after or "# one" not in before


def test_a_rotation_keeps_what_still_counts() -> None:
    now = datetime(2026, 11, 22, tzinfo=UTC)
    valid = {"secret": "env:A", "until": "2026-11-22T01:00:00Z"}
    over = {"secret": "env:OLDER", "until": "2026-11-21T23:59:59Z"}
    old = {"id": "a", "url": "x", "secret": "env:B", "old_secrets": [valid, over]}
    turned = rotated(old, "file:/c", 3600, now)
    assert turned["secret"] == "file:/c"
    assert turned["old_secrets"] == [{"secret": "env:B", "until": "2026-11-22T01:00:00Z"}, valid]
    assert "old_secrets" not in rotated(old, "file:/c", 0, now), "a leaked secret ends at once"
    with pytest.raises(ConfigError, match="7 days"):
        rotated(old, "file:/c", 8 * 86_400, now)


def test_what_came_of_another_systems_file_is_changed_there() -> None:
    published = set_with(parse_hook_file("", "fleet"), NEW)
    theirs = published.endpoints[0].__class__(id="g", url="https://g.example/", dialect="gobby", origin="config.yaml:3")
    with pytest.raises(ConfigError, match=r"a file of gobby; change it there \(config\.yaml:3\)"):
        set_changed(published.__class__(endpoints=(theirs,)), "g", dict)
    with pytest.raises(ConfigError, match="already"):
        set_with(published, NEW)
