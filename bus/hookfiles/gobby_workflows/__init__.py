"""Reads Gobby's workflow files, in both forms: `steps` and `phases` (docs/gobby.md)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import msgspec

from bus.config.documents import Document, Plain, Source, load, stamp
from bus.config.hook_file_value import HookFile
from bus.errors import ConfigError
from bus.hookfiles.gobby_workflows.reader import WorkflowReader
from bus.hookfiles.gobby_workflows.single_rules import is_rules
from bus.hooks import Hook, Layer
from bus.workflows.patterns import event_patterns
from bus.workflows.values import Workflow, waits

NAME: Final = "gobby"
FOLDER: Final = "workflows"
LIFECYCLE: Final = "lifecycle"
MARKS: Final = frozenset({"steps", "phases", "triggers", "extends", "tool_rules", "observers"})
"""The keys by which a file is recognised."""

_SECONDS: Final = 60.0
_QUICK_SECONDS: Final = 10.0
_MOST_FILES: Final = 200
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")


def is_workflow(value: Plain) -> bool:
    """Whether the content of a file is a workflow."""
    named = isinstance(value, dict) and isinstance(value.get("name"), str) and bool(MARKS & set(value))
    return named or is_rules(value)


def workflow_files(folder: Path) -> list[Path]:
    """The workflow files of a folder: its own, then those of its direct subfolders; a name counts once in each kind."""
    found: dict[tuple[bool, str], Path] = {}
    try:
        below = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())
    except OSError:
        return []
    for place in (folder, *map(Path, below)):
        for path in sorted(place.glob("*.yaml")):
            found.setdefault((place.name == LIFECYCLE, path.stem), path)
    return list(found.values())[:_MOST_FILES]


def read_workflows(path: Path, layer: Layer) -> HookFile:
    """The workflows of a file or a folder. A bad one is reported and left out, and the others load.

    A workflow with steps waits for a person's order if it is one of a folder, as in Gobby; one that is named begins by itself.
    """
    files = workflow_files(path) if path.is_dir() else [path]
    hooks: list[Hook] = []
    problems: list[ConfigError] = []
    warnings: list[str] = []
    sources = [Source(str(path), stamp(path))] if path.is_dir() else []
    for file in files:
        try:
            document = load(file)
        except ConfigError as error:
            if file == path:
                raise
            error.source = error.source or str(file)
            problems.append(error)
            continue
        if file != path and not is_workflow(document.value):
            continue  # a folder may have other files
        reader = WorkflowReader(document, file, by_order=file != path and file.parent.name != LIFECYCLE)
        workflow = reader.read()
        problems += [*reader.problems, *reader.parts]
        warnings += reader.warnings
        sources += reader.sources
        if workflow is not None and not reader.problems:
            hooks.append(_hook(document, workflow, reader, layer))
    ordered = sorted(hooks, key=lambda hook: (hook.priority, hook.id))
    placed = tuple(msgspec.structs.replace(hook, position=number) for number, hook in enumerate(ordered))
    file_value = HookFile(placed, problems=tuple(problems), warnings=tuple(warnings), sources=tuple(sources))
    return file_value.with_digest()


def _hook(document: Document, workflow: Workflow, reader: WorkflowReader, layer: Layer) -> Hook:
    return Hook(
        id=_UNFIT.sub("-", workflow.name).strip("-")[:64] or "workflow",
        on=event_patterns(workflow),
        workflow=workflow,
        description=workflow.description,
        priority=reader.priority,
        timeout=_SECONDS if waits(workflow) else _QUICK_SECONDS,
        enabled=reader.enabled,
        dialect=NAME,
        layer=layer,
        origin=f"{document.file}:{document.place(('name',))[0]}",
    )
