"""Code Guardian: checks Python code that agents write with ruff and mypy (G-21).

A file that an agent writes is checked before it is written: what ruff can mend is mended in the call itself, and what is left
refuses the call, or is told to the model. A file that was edited is checked afterwards, and the model gets the findings.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from subprocess import PIPE
from typing import Any, ClassVar, NamedTuple

from bus.plugins import HookEvent, HookEventType, HookPlugin, HookResponse, hook_handler

_FINDING = re.compile(r":\d+(:\d+)?: ")
_SHOWN = 20
_REMEMBERED = 1000
_FIX_SECONDS, _LINT_SECONDS, _TYPE_SECONDS, _FORMAT_SECONDS = 30, 30, 60, 60


class Run(NamedTuple):
    """How a program ended; `code` is None where it is not installed or took too long."""

    code: int | None
    out: str = ""


class CodeGuardianPlugin(HookPlugin):
    """Keeps code that does not pass its checks out of files."""

    name = "code-guardian"
    version = "1.0.0"
    description = "Checks Python code that agents write with ruff and mypy."
    config_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "checks": {"type": "array", "items": {"enum": ["ruff", "mypy"]}, "default": ["ruff"]},
            "block_on_error": {"type": "boolean", "default": True},
            "auto_fix": {"type": "boolean", "default": True},
            "file_patterns": {"type": "array", "items": {"type": "string"}, "default": ["*.py"]},
            "ignore_paths": {
                "type": "array",
                "items": {"type": "string"},
                "default": [".venv", "__pycache__", "node_modules"],
            },
            "mypy_config": {"type": "string", "default": ""},
        },
        "additionalProperties": False,
    }

    def on_load(self, config: dict[str, Any]) -> None:
        self.config = config
        self.results: dict[str, dict[str, Any]] = {}
        """By path: `status` (passed or failed) and `errors` of the last check."""
        self.checked = self.blocked = self.fixed = 0
        self.register_workflow_action("run_linter", _FILES, self.run_linter)
        self.register_workflow_action("format_code", _FILES, self.format_code)
        self.register_condition("passes_lint", self.passes_lint)
        self.register_condition("has_type_errors", self.has_type_errors)
        for check in config["checks"]:
            if shutil.which(check) is None:
                self.logger.warning("%s is not on the worker's PATH: its checks find nothing", check)

    def on_unload(self) -> None:
        self.logger.info("%d files checked, %d calls refused, %d mended", self.checked, self.blocked, self.fixed)

    @hook_handler(HookEventType.PRE_TOOL_CALL, priority=10)
    async def check_before_write(self, event: HookEvent) -> HookResponse | None:
        """Check the content of a file before it is written."""
        given = event.data["tool_input"]
        path, content = self._file(event), given.get("content")
        if event.data["tool_name"] != "Write" or path is None or not isinstance(content, str):
            return None
        self.checked += 1
        mended = await self._mended(path, content) if self.config["auto_fix"] else content
        errors = await self._errors_in(path, mended)
        changed = {"content": mended} if mended != content else None
        self.fixed += changed is not None
        self._remember(path, errors)
        if errors and self.config["block_on_error"]:
            self.blocked += 1
            metadata = {"plugin": self.name, "issues": errors[:5], "file": str(path)}
            return HookResponse("deny", reason=_report(path, errors), metadata=metadata)
        told = [_report(path, errors)] if errors else []
        told += (
            [f"Code Guardian mended {path} as ruff does; what was written differs from your text."] if changed else []
        )
        if not told and not changed:
            return None
        return HookResponse("modify" if changed else "allow", context="\n".join(told), modify_args=changed)

    @hook_handler(HookEventType.POST_TOOL_CALL, priority=40)
    async def report_after_tool(self, event: HookEvent) -> HookResponse | None:
        """Check a file that was edited, mend what can be mended, and tell the model what is left."""
        path = self._file(event)
        if event.data["tool_name"] not in {"Edit", "MultiEdit"} or path is None or not path.is_file():
            return None
        self.checked += 1
        if self.config["auto_fix"] and "ruff" in self.config["checks"]:
            before = path.read_bytes()
            await _run(("ruff", "check", "--fix", "--quiet", "--exit-zero", str(path)), path.parent, _FIX_SECONDS)
            self.fixed += path.read_bytes() != before
        errors = await self._errors_of(path)
        self._remember(path, errors)
        return HookResponse(context=_report(path, errors)) if errors else None

    async def run_linter(self, context: Any, files: Sequence[str] | None = None) -> dict[str, Any]:
        """Check files; without any, those whose last check failed."""
        paths = self._paths(context, files)
        errors = [error for path in paths for error in await self._errors_of(path, remember=True)]
        return {"passed": not errors, "errors": errors, "files_checked": len(paths)}

    async def format_code(self, context: Any, files: Sequence[str] | None = None) -> dict[str, Any]:
        """Format files with ruff; without any, those whose last check failed."""
        formatted, errors = [], []
        for path in self._paths(context, files):
            run = await _run(("ruff", "format", "--quiet", str(path)), path.parent, _FORMAT_SECONDS, errors=True)
            if run.code == 0:
                formatted.append(str(path))
            else:
                errors.append(f"{path}: {run.out.strip() or 'ruff is not installed, or took too long'}")
        return {"formatted": formatted, "errors": errors}

    def passes_lint(self, file_path: str | None = None) -> bool:
        """Whether a file's last check passed; without a path, whether no file's last check failed."""
        if file_path is not None:
            return bool(self.results.get(str(Path(file_path)), {}).get("status") == "passed")
        return all(result["status"] == "passed" for result in self.results.values())

    def has_type_errors(self, file_path: str | None = None) -> bool:
        """Whether mypy finds errors in a file; False without one."""
        if file_path is None or shutil.which("mypy") is None:
            return False
        import subprocess

        path = Path(file_path).absolute()
        try:
            run = subprocess.run(
                self._mypy(path), cwd=path.parent, capture_output=True, timeout=_TYPE_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return bool(_type_errors(run.stdout.decode("utf-8", "replace")))

    def _file(self, event: HookEvent) -> Path | None:
        """The file of a call, if it is one that is checked."""
        named = event.data["tool_input"].get("file_path")
        if not isinstance(named, str) or not named or "\0" in named:
            return None
        path = Path(event.cwd or "/", named)
        fits = any(path.match(pattern) for pattern in self.config["file_patterns"])
        return path if fits and not any(part in str(path) for part in self.config["ignore_paths"]) else None

    def _paths(self, context: Any, files: Sequence[str] | None) -> list[Path]:
        given = files if files is not None else context.get("files") if context is not None else None
        if given is None:
            given = [path for path, result in self.results.items() if result["status"] == "failed"]
        return [Path(name).absolute() for name in given]

    async def _mended(self, path: Path, content: str) -> str:
        """The content as ruff mends it; as it is where ruff cannot read it."""
        if "ruff" not in self.config["checks"]:
            return content
        command = ("ruff", "check", "--fix", "--quiet", "--exit-zero", "--stdin-filename", str(path), "-")
        run = await _run(command, _folder(path), _FIX_SECONDS, content)
        return run.out if run.code == 0 and run.out else content

    async def _errors_in(self, path: Path, content: str) -> list[str]:
        """What the checks find in a content that is not in its file yet."""
        errors = []
        if "ruff" in self.config["checks"]:
            command = ("ruff", "check", "--quiet", "--output-format=concise", "--stdin-filename", str(path), "-")
            errors += _findings((await _run(command, _folder(path), _LINT_SECONDS, content)).out)
        if "mypy" in self.config["checks"]:
            with tempfile.TemporaryDirectory(prefix="code-guardian-") as folder:
                copy = Path(folder, path.name)
                copy.write_bytes(_bytes(content))  # noqa: ASYNC240 - a small file of this machine
                run = await _run(self._mypy(copy), _folder(path), _TYPE_SECONDS, path=_folder(path))
                errors += [error.replace(str(copy), str(path)) for error in _type_errors(run.out)]
        return errors

    async def _errors_of(self, path: Path, *, remember: bool = False) -> list[str]:
        """What the checks find in a file."""
        errors = []
        if "ruff" in self.config["checks"]:
            command = ("ruff", "check", "--quiet", "--output-format=concise", str(path))
            errors += _findings((await _run(command, _folder(path), _LINT_SECONDS)).out)
        if "mypy" in self.config["checks"]:
            errors += _type_errors((await _run(self._mypy(path), _folder(path), _TYPE_SECONDS)).out)
        if remember:
            self._remember(path, errors)
        return errors

    def _mypy(self, path: Path) -> tuple[str, ...]:
        """The command of mypy. A project's own settings may name programs to run (`plugins`), so they are not read."""
        cache = Path.home() / ".cache" / "fleethook" / "mypy"
        settings = (f"--config-file={self.config['mypy_config']}", f"--cache-dir={cache}")
        shown = ("--no-error-summary", "--show-absolute-path", "--no-color-output", "--follow-imports=silent")
        return ("mypy", *settings, *shown, "--ignore-missing-imports", "--", str(path))

    def _remember(self, path: Path, errors: list[str]) -> None:
        self.results.pop(str(path), None)
        self.results[str(path)] = {"status": "failed" if errors else "passed", "errors": errors}
        if len(self.results) > _REMEMBERED:
            self.results.pop(next(iter(self.results)))


_FILES = {"type": "object", "properties": {"files": {"type": "array", "items": {"type": "string"}}}}


def _findings(text: str) -> list[str]:
    return [line for line in text.splitlines() if _FINDING.search(line)]


def _type_errors(text: str) -> list[str]:
    return [line for line in text.splitlines() if ": error:" in line]


def _report(path: Path, errors: list[str]) -> str:
    more = [f"… and {len(errors) - _SHOWN} more"] if len(errors) > _SHOWN else []
    many = "1 issue" if len(errors) == 1 else f"{len(errors)} issues"
    return "\n".join((f"Code Guardian found {many} in {path}:", *errors[:_SHOWN], *more))


def _folder(path: Path) -> Path:
    """The nearest folder above a path that exists."""
    return next(folder for folder in path.parents if folder.is_dir())


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # an agent's text may hold half a character


async def _run(
    command: Iterable[str],
    folder: Path,
    seconds: float,
    content: str | None = None,
    *,
    path: Path | None = None,
    errors: bool = False,
) -> Run:
    """Run a program without a shell; what it writes, with its error output where `errors` says so."""
    more = {"MYPYPATH": str(path)} if path is not None else {}
    try:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=folder, stdin=PIPE, stdout=PIPE, stderr=PIPE, env={**os.environ, **more}
        )
    except OSError:
        return Run(None)
    try:
        data = _bytes(content) if content is not None else None
        out, err = await asyncio.wait_for(process.communicate(data), seconds)
    except BaseException as error:
        if process.returncode is None:
            process.kill()
            await process.wait()
        if isinstance(error, TimeoutError):
            return Run(None)
        raise
    return Run(process.returncode, (out + err if errors else out).decode("utf-8", "replace"))
