"""A new Python plugin with its test, for `plugins new`; both work, and the user edits them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Final, NamedTuple

from bus.errors import ConfigError

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*\Z")

_MOST: Final = 64
"""The most characters of a name."""

_PLUGIN: Final = '''\
"""NAME: say here what it is for."""

from __future__ import annotations

from typing import Any

from bus.plugins import HookEvent, HookEventType, HookPlugin, HookResponse, hook_handler


class CLASS(HookPlugin):
    """Denies tool calls that hold a word of its config, and counts all of them."""

    name = "NAME"
    version = "0.1.0"
    description = "Say here what it is for."
    config_schema = {
        "type": "object",
        "properties": {"words": {"type": "array", "items": {"type": "string"}, "default": ["forbidden"]}},
        "additionalProperties": False,
    }

    def on_load(self, config: dict[str, Any]) -> None:
        self.words = config["words"]
        self.calls = 0

    def on_unload(self) -> None:
        self.logger.info("%d calls", self.calls)

    @hook_handler(HookEventType.BEFORE_TOOL, priority=10)
    def check(self, event: HookEvent) -> HookResponse | None:
        """Under 50, a handler contributes to the verdict."""
        text = str(event.data["tool_input"])
        for word in self.words:
            if word in text:
                return HookResponse(decision="deny", reason=f"{word!r} is not allowed here")
        return None

    @hook_handler(HookEventType.AFTER_TOOL, priority=60)
    def count(self, event: HookEvent, core_response: HookResponse | None) -> None:
        """From 50 on, a handler sees the event after the verdict."""
        self.calls += 1
'''

_TEST: Final = '''\
"""The test of NAME: `pytest` runs it without a server."""

from __future__ import annotations

from pathlib import Path

from bus.events import Event

PLUGIN = Path(__file__).with_name("FILE.py")


def call(command: str, type_: str = "tool:pre_execute") -> Event:
    return Event(type=type_, tool="bash", input={"command": command})


def test_it_denies_its_words(hook_plugin) -> None:
    bus = hook_plugin(PLUGIN, {"words": ["production"]})
    verdict = bus.request(call("deploy production"))
    assert (verdict.decision, verdict.reason) == ("deny", "'production' is not allowed here")
    assert bus.request(call("deploy staging")).decision == "abstain"


def test_it_counts_calls(hook_plugin) -> None:
    bus = hook_plugin(PLUGIN)
    bus.request(call("ls", "tool:post_execute"))
    assert bus.plugin("NAME").calls == 1
'''


class NewPlugin(NamedTuple):
    """The files of a new plugin, with their texts."""

    file: Path
    text: str
    test: Path
    test_text: str


def new_plugin(name: str, folder: Path) -> NewPlugin:
    """The files of a plugin with this name; raises ConfigError for a name that is none, and where a file exists."""
    if not _NAME.match(name) or len(name) > _MOST:
        hint = f"write small letters, digits and `-`, at most {_MOST}, e.g. code-guardian"
        raise ConfigError(f"{name[:64]!r} is no name of a plugin", hint=hint)
    stem = name.replace("-", "_")
    if importlib.util.find_spec(stem) is not None:  # beside its test it would be imported in place of that module
        stem += "_plugin"
    words = "".join(part.capitalize() for part in re.split("[-_]", name))
    found = NewPlugin(
        folder / f"{stem}.py",
        _PLUGIN.replace("NAME", name).replace("CLASS", words),
        folder / f"test_{stem}.py",
        _TEST.replace("NAME", name).replace("FILE", stem),
    )
    for path in (found.file, found.test):
        if path.exists():
            raise ConfigError(
                "this file exists already, and nothing is overwritten", file=str(path), hint="choose another name"
            )
    return found


def write_plugin(plugin: NewPlugin) -> None:
    """Write both files; raises ConfigError where one exists or cannot be written."""
    try:
        plugin.file.parent.mkdir(parents=True, exist_ok=True)
        for path, text in ((plugin.file, plugin.text), (plugin.test, plugin.test_text)):
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", file=str(error.filename)) from error
