"""Settings: who wins, where a value came from, and what is said of a bad one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from bus.config.setting_types import DAY, MIB
from bus.config.settings import NAMES, Settings, describe, parse_setting
from bus.errors import ConfigError
from bus.hooksets.files_in_force import file_in_force
from bus.hooksets.settings_files import LoadedSettings, load_settings
from bus.hooksets.trust import trust
from bus.system.directories import directories
from tests.support.rows import rows


class Machine:
    """A user's home and a project on a disk of their own."""

    def __init__(self, root: Path) -> None:
        self.environ = {"FLEETHOOK_HOME": str(root / "home")}
        self.places = directories(self.environ)
        self.user = self.places.config / "fleethook.yaml"
        self.project = root / "project" / "fleethook.yaml"
        self.project.parent.mkdir()
        (self.project.parent / ".git").mkdir()

    def load(self, flags: Mapping[str, object] | None = None, **environ: str) -> LoadedSettings:
        return load_settings(flags or {}, environ={**self.environ, **environ}, cwd=self.project.parent)

    def trust(self) -> None:
        trust(self.project, self.places.trust_file)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_defaults_are_for_a_laptop(machine: Machine) -> None:
    loaded = machine.load()
    assert loaded.settings == Settings()
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.warnings == ()
    assert (loaded.settings.events_max_age, loaded.settings.events_max_bytes) == (14 * DAY, 256 * MIB)
    assert (loaded.settings.budget, loaded.settings.on_failure) == (10.0, "allow")


@pytest.mark.req("G-20")
def test_flags_win_over_variables_over_project_over_user_over_defaults(machine: Machine) -> None:
    machine.user.write_text("settings: {budget: 2, slots: 2, carriers: 2, namespace: user, log_level: debug}")
    machine.project.write_text("settings:\n  budget: 3\n  slots: 3\n  carriers: 3\n")
    machine.trust()
    loaded = machine.load({"budget": 5, "slots": None}, FLEETHOOK_BUDGET="4", FLEETHOOK_SLOTS="4")
    settings, origins = loaded.settings, loaded.origins
    assert (settings.budget, origins["budget"]) == (5.0, "--budget")
    assert (settings.slots, origins["slots"]) == (4, "FLEETHOOK_SLOTS")
    assert (settings.carriers, origins["carriers"]) == (3, f"{machine.project}:4")
    assert (settings.namespace, origins["namespace"]) == ("user", f"{machine.user}:1")
    assert (settings.chores, origins["chores"]) == (1, "default")


@pytest.mark.req("G-20")
def test_a_folder_that_nobody_trusts_sets_only_what_is_harmless(machine: Machine) -> None:
    machine.project.write_text(
        "settings: {redis_url: 'redis://evil.example', rq_url: 'redis://evil.example', "
        "on_failure: allow, budget: 0.01, log_level: debug}"
    )
    loaded = machine.load()
    assert loaded.settings == Settings(log_level="debug")
    assert loaded.warnings == (
        f"{machine.project}: its settings are ignored; `fleethook hooks trust` would trust the folder",
    )
    machine.trust()
    assert machine.load().settings.redis_url == "redis://evil.example"
    machine.project.write_text("settings: {redis_url: 'redis://other.example'}")
    assert machine.load().settings.redis_url == ""


@pytest.mark.parametrize(
    "text", ["settings: [", "settings: 3", "settings: {budget: soon}", "settings: {zzz: 1}", "- a", "\x00"]
)
def test_a_folder_that_nobody_trusts_can_break_nothing(machine: Machine, text: str) -> None:
    machine.project.write_text(text)
    assert machine.load().settings == Settings()


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"FLEETHOOK_BUDGET": "soon"}, "FLEETHOOK_BUDGET: budget has to be seconds, or a time such as 90s, 12h or 14d"),
        ({"FLEETHOOK_BUDGET": "nan"}, "FLEETHOOK_BUDGET: budget has to be seconds, or a time such as 90s, 12h or 14d"),
        ({"FLEETHOOK_BUDGET": "0"}, "FLEETHOOK_BUDGET: budget has to be at least 0.01"),
        ({"FLEETHOOK_SLOTS": "many"}, "FLEETHOOK_SLOTS: slots has to be a whole number"),
        ({"FLEETHOOK_SLOTS": "-1"}, "FLEETHOOK_SLOTS: slots has to be at least 1"),
        ({"FLEETHOOK_SLOTS": "0"}, "FLEETHOOK_SLOTS: slots has to be at least 1"),
        ({"FLEETHOOK_SLOTS": "9" * 5000}, "FLEETHOOK_SLOTS: slots has to be a whole number"),
        ({"FLEETHOOK_NAMESPACE": "Mine!"}, "FLEETHOOK_NAMESPACE: namespace has to match [a-z0-9-]{1,40}"),
        ({"FLEETHOOK_NAMESPACE": "mine\n"}, "FLEETHOOK_NAMESPACE: namespace has to match [a-z0-9-]{1,40}"),
        (
            {"FLEETHOOK_ON_FAILURE": "dany"},
            "FLEETHOOK_ON_FAILURE: on_failure has to be allow, ask or deny, not 'dany'; did you mean \"deny\"?",
        ),
        (
            {"FLEETHOOK_REDIS_URL": "http://:hunter2@h"},
            "FLEETHOOK_REDIS_URL: redis_url has to begin with redis:// or rediss:// or unix://",
        ),
        (
            {"FLEETHOOK_REDIS_URL": "redis://:hunter2@h:99999"},
            "FLEETHOOK_REDIS_URL: redis_url is not a URL; see host and port",
        ),
        ({"FLEETHOOK_REDIS_URL": "redis:///0"}, "FLEETHOOK_REDIS_URL: redis_url names no host"),
        ({"FLEETHOOK_REDIS_URL": "unix://"}, "FLEETHOOK_REDIS_URL: redis_url names no socket"),
    ],
)
def test_a_bad_variable_is_named_and_no_secret_shown(machine: Machine, environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        machine.load({}, **environ)
    assert str(caught.value) == message


def test_a_bad_value_in_a_file_has_its_place(machine: Machine) -> None:
    machine.user.write_text("settings:\n  budget: 1\n  slost: 3\n")
    loaded = machine.load()
    assert 'fleethook.yaml:3:3: unknown setting "slost"; did you mean "slots"?' in loaded.warnings[0]
    assert loaded.settings.budget == 1, "the good ones of a file that was never in force count"


@pytest.mark.req("X-10")
@pytest.mark.parametrize(
    "bad", ["settings: {namespace: other, slots: many}", "settings: {namespace: other}\nhooks: [", ""]
)
def test_the_last_good_settings_stay_in_force(machine: Machine, bad: str) -> None:
    """Whatever is wrong with the file: a typo in a setting, one in a hook, a file that was cut off."""
    machine.user.write_text("settings: {namespace: mine}\nhooks: [{on: '*', command: x}]\n")
    file_in_force(machine.user, "user", directories(machine.environ).last_good)
    machine.user.write_text(bad)
    loaded = machine.load()
    assert loaded.settings.namespace == "mine"
    assert "the last good content stays in force" in loaded.warnings[0]
    machine.user.write_text("settings: {namespace: other}\n")
    assert (machine.load().settings.namespace, machine.load().warnings) == ("other", ())


def test_a_bad_flag_is_named(machine: Machine) -> None:
    with pytest.raises(ConfigError, match=r"^--connect-timeout: connect_timeout has to be at most 60"):
        machine.load({"connect_timeout": 61})


def test_unknown_variables_are_warned_of(machine: Machine) -> None:
    loaded = machine.load(FLEETHOOK_REDIS_ULR="x", FLEETHOOK_PARENT="e0", FLEETHOOK_QQQ="1", REDIS_URL="redis://other")
    assert loaded.warnings == (
        "FLEETHOOK_QQQ is no variable of Fleethook",
        "FLEETHOOK_REDIS_ULR is no variable of Fleethook; did you mean FLEETHOOK_REDIS_URL?",
    )
    assert loaded.settings.redis_url == ""  # REDIS_URL is another program's


def test_an_empty_url_means_the_embedded_server_and_an_empty_number_means_nothing(machine: Machine) -> None:
    machine.user.write_text("settings: {redis_url: 'redis://fleet.example', slots: 3}")
    loaded = machine.load(FLEETHOOK_REDIS_URL="", FLEETHOOK_SLOTS="")
    assert (loaded.settings.redis_url, loaded.origins["redis_url"]) == ("", "FLEETHOOK_REDIS_URL")
    assert loaded.settings.slots == 3


@rows(
    ("name", "raw", "value"),
    [
        ("events_max_age", "14d", 14 * DAY),
        ("events_max_age", 60, 60.0),
        ("events_max_age", "1.5 h", 5400.0),
        ("connect_timeout", "250ms", 0.25),
        ("budget", "2", 2.0),
        ("events_max_bytes", "1GiB", 1024 * MIB),
        ("events_max_bytes", "64 mb", 64_000_000),
        ("events_max_bytes", 5, 5),
        ("slots", "7", 7),
        ("slots", 7, 7),
        ("redis_url", "unix:///run/x.sock", "unix:///run/x.sock"),
        ("redis_url", "rediss://u:p@[::1]:6380/2", "rediss://u:p@[::1]:6380/2"),
    ],
)
def test_times_and_sizes(name: str, raw: object, value: object) -> None:
    found = parse_setting(name, raw)
    assert found == value
    assert type(found) is type(value) or isinstance(found, float)


@pytest.mark.parametrize("raw", [True, None, [], {}, "d", "1x", "-1d", "1e5", "٣d", "1d 2h"])
def test_what_is_no_time(raw: object) -> None:
    with pytest.raises(ConfigError, match="events_max_age"):
        parse_setting("events_max_age", raw)


def test_every_setting_is_described() -> None:
    found = describe()
    assert set(found) == set(NAMES)
    assert all(text.endswith(".") for text in found.values())


def test_a_working_directory_that_is_gone_has_no_project(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert load_settings(environ=machine.environ).settings == Settings()
