"""Plugins of a package that pip really installed into an environment, found by their entry points (G-13)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace
from tests.support.servers import Server
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("G-13")]

ROOT = Path(__file__).parents[2]
FILES = {
    "pyproject.toml": """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
""",
    "backend.py": '''
"""Builds a wheel by the standard library alone, so that nothing is fetched."""
import zipfile
from pathlib import Path

INFO = "houserules-0.3.0.dist-info"
TEXTS = {
    "METADATA": "Metadata-Version: 2.1\\nName: houserules\\nVersion: 0.3.0\\n",
    "WHEEL": "Wheel-Version: 1.0\\nGenerator: own\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    "entry_points.txt": "[fleethook.plugins]\\nhouse-rules = houserules.plugin:HouseRules\\n",
}


def _wheel(folder, files):
    name = "houserules-0.3.0-py3-none-any.whl"
    with zipfile.ZipFile(Path(folder, name), "w") as wheel:
        for path, text in {**files, **{f"{INFO}/{key}": value for key, value in TEXTS.items()}}.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{INFO}/RECORD", "".join(f"{path},,\\n" for path in [*files, *TEXTS]))
    return name


def build_wheel(folder, config_settings=None, metadata_directory=None):
    return _wheel(folder, {f"houserules/{path.name}": path.read_text() for path in Path("houserules").glob("*.py")})


def build_editable(folder, config_settings=None, metadata_directory=None):
    """As setuptools' editable installs: a finder of its own, which is put before the others by a .pth file."""
    finder = f"""
import sys
from importlib.util import spec_from_file_location

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "houserules":
            return spec_from_file_location(name, {str(Path("houserules/__init__.py").resolve())!r},
                                           submodule_search_locations=[{str(Path("houserules").resolve())!r}])

def install():
    sys.meta_path.append(Finder)
"""
    return _wheel(folder, {"__house_finder.py": finder, "house.pth": "import __house_finder; __house_finder.install()\\n"})
''',
    "houserules/__init__.py": "",
    "houserules/words.py": "WORD = 'quiet please'\n",
    "houserules/plugin.py": """
from gobby.hooks.events import HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler
from houserules.words import WORD


class HouseRules(HookPlugin):
    name = "house-rules"
    version = "0.3.0"

    @hook_handler(HookEventType.BEFORE_TOOL, priority=10)
    def check(self, event):
        if "forbidden" in str(event.data["tool_input"]):
            return HookResponse(decision="deny", reason=WORD)
""",
}
CALL = json.dumps({"type": "tool:pre_execute", "tool": "bash", "input": {"command": "forbidden"}})


class Environment:
    """A Python environment of its own that also has this one's packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        self.python = str(folder / "bin" / "python")
        site = self.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        Path(site, "here.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")

    def run(self, *words: str, **env: str) -> str:
        """What a program of the environment prints."""
        done = self.tried(*words, **env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tried(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """How a program of the environment ends."""
        command, whole = [self.python, *words], {**os.environ, **env}
        return subprocess.run(command, check=False, env=whole, capture_output=True, text=True, timeout=300)

    def pip(self, *words: str) -> None:
        """Run pip without any index."""
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.python]
        done = subprocess.run([*pip, *words], check=False, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("env") / "venv")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "package"


@pytest.mark.parametrize("how", ["wheel", "editable"])
def test_a_packages_plugin_is_found_enabled_and_asked(
    how: str,
    environment: Environment,
    package: Path,
    server: Server,
    keys: Keys,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offline = ("--no-index", "--no-deps", "--no-build-isolation")
    environment.pip("install", *offline, *(["--editable"] if how == "editable" else []), str(package))
    env = {
        "FLEETHOOK_HOME": str(tmp_path / "home"),
        "FLEETHOOK_REDIS_URL": server.url,
        "FLEETHOOK_NAMESPACE": namespace(keys),
        "PYTHONPATH": "",
    }
    try:
        (found,) = json.loads(environment.run("-m", "workers.cli", "plugins", "list", "--json", **env))
        assert (found["name"], found["state"]) == ("house-rules", "off"), "nothing runs before it is enabled"
        environment.run("-m", "workers.cli", "plugins", "enable", "house-rules", "--yes", **env)
        log = tmp_path / "log"
        with log.open("wb") as output:
            worker = subprocess.Popen(
                [environment.python, "-m", "workers.cli", "worker", "evaluator"],
                env={**os.environ, **env},
                stdout=output,
                stderr=output,
            )
        try:
            wait_until(lambda: "ready" in log.read_text(), "the evaluator is ready")
            for name, value in env.items():
                monkeypatch.setenv(name, value)
            answer = fleethook("request", stdin=CALL)
            assert answer.json["decision"] == "deny", log.read_text()
            assert answer.json["reason"] == "quiet please"
        finally:
            worker.terminate()
            worker.wait(PATIENCE)
    finally:
        environment.pip("uninstall", "--yes", "houserules")
    checked = environment.tried("-m", "workers.cli", "config", "check", **env)
    assert checked.returncode == 4
    assert 'no plugin is called "house-rules"' in checked.stdout
