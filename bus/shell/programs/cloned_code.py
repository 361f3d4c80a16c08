"""Repositories, archives and packages that a line fetches and whose code it then runs unread.

`git clone URL && bash repo/install.sh`, `curl URL | tar x -C /tmp && /tmp/x/run`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.commands import Command
from bus.shell.inner import names
from bus.shell.interpreters import find_interpreter
from bus.shell.script_runners import SHELLS
from bus.shell.words import UNKNOWN

SOURCE: Final = "clone"
"""Stands for the program that wrote the code, in `Command.code_from`."""
_CLONERS: Final = names("git gh glab hg svn degit tiged jj")
_VALUES: Final = names(
    "-b --branch --depth -o --origin -c --config --reference -u --upload-pack -j --jobs --filter --template --shallow-since"
    " --separate-git-dir -r --revision --server-option"
)
_SCRIPT: Final = lazy_regex(
    r"(?i)(?:install|setup|bootstrap|deploy|provision|init)[\w.-]*|[\w.-]+\.(?:sh|bash|zsh|run|ps1|bat|cmd)"
)
_CHECKED: Final = names("configure gradlew mvnw manage.py autogen.sh")
_ROOT: Final = names("sudo doas pkexec")
_BUILDERS: Final = names(
    "make gmake ninja npm pnpm yarn pip pip3 cargo rake just task invoke ansible-playbook terraform meson cmake"
)
_INSTALLS: Final = lazy_regex(r"(?:un|pre|post|re)?install(?:[-_:]\w+)?|deploy|bootstrap|provision|setup")
_MOST: Final = 256
_UNPACKERS: Final = names("tar gtar bsdtar unzip 7z 7za 7zz unar bsdcpio cpio")
_FETCHERS: Final = names("curl wget aria2c http https xh fetch axel lynx")
_PACKAGES: Final = (("pip", "download"), ("pip3", "download"), ("npm", "pack"), ("gem", "fetch"), ("apt", "download"))
"""Programs that download a package as an archive, each with its verb."""
_FOLDERS: Final = names("-C --directory -d")
_ARCHIVE: Final = lazy_regex(r"\.(?:tar(?:\.\w+)?|t[gbx]z2?|zip|7z|whl|gem|crate)$")
_TEMPORARY: Final = ("/tmp/", "/var/tmp/", "/dev/shm/", "/private/tmp/")  # noqa: S108  (only compared with)
_SHOWING: Final = names("--version -v -V version --help -h help")


def cloned_code(items: Sequence[Command]) -> Iterator[Command]:
    """The commands among `items` that run code of a repository which an earlier one has cloned, as they run it."""
    folders: list[str] = []
    root = False
    for command in items[:_MOST]:
        if command.program in _CLONERS and (folder := _folder(command)):
            folders.append(folder)
        elif folders and (command.program in _ROOT or _runs(command, folders, root=root)):
            if command.program not in _ROOT:
                yield command._replace(code_from=(SOURCE,))
            root = command.program in _ROOT
            continue
        root = command.program in _ROOT


def unpacked_code(items: Sequence[Command]) -> Iterator[Command]:
    """The commands that run code of an archive which an earlier one has fetched and unpacked, as they run it."""
    folders: list[str] = []
    fetched: list[Command] = []
    for command in items[:_MOST]:
        if command.program in _FETCHERS or (command.program, *command.words[:1]) in _PACKAGES:
            fetched.append(command)
        elif fetched and (command.program in _UNPACKERS or (command.program, *command.words[:1]) == ("gem", "unpack")):
            folders += _unpacked_to(command, fetched)
        elif folders and (runs_script(command, folders) or _runs_temporary(command, folders)):
            yield command._replace(code_from=(SOURCE,))


def _unpacked_to(command: Command, fetched: Sequence[Command]) -> Iterator[str]:
    """The folders that an archive from the network is unpacked into; none where it is not known to come from there."""
    words = command.words
    archive = next((word for word in words if word[:1] != "-" and _ARCHIVE.search(word)), "")
    name = posixpath.basename(archive)
    if not _FETCHERS.isdisjoint(command.piped_from) or (
        name and any(one.program not in _FETCHERS or name in " ".join(one.words) for one in fetched)
    ):
        folder = next((words[place + 1] for place, word in enumerate(words[:-1]) if word in _FOLDERS), "")
        folder = folder or next((word[2:] for word in words if word[:2] in ("-C", "-o", "-d") and len(word) > 2), "")
        path = path_in(command.directory, folder) if folder else command.directory
        if path.strip("./") and (folder or f"{path}/".startswith(_TEMPORARY)):
            yield path
        elif name:
            yield path_in(path, _ARCHIVE.sub("", name))
            if any(one.program == "npm" for one in fetched):  # each of npm's archives has this one folder
                yield path_in(path, "package")


def _runs_temporary(command: Command, folders: Sequence[str]) -> bool:
    """Whether a command is a program of one of these folders, if that is a temporary one."""
    path = path_in(command.directory, command.path) if "/" in command.path else ""
    if not path.startswith(_TEMPORARY) or not is_inside(path, folders):
        return False
    return posixpath.basename(path) not in _CHECKED and not (command.words and _SHOWING.issuperset(command.words))


def _folder(command: Command) -> str:
    """The folder that a command clones into; empty where it clones nothing."""
    words = command.words
    base, place = command.directory, 0
    while command.program == "git" and place < len(words) and words[place][:1] == "-":
        if words[place] == "-C" and place + 1 < len(words):
            base = posixpath.join(base, words[place + 1])
        place += 2 if words[place] in ("-C", "-c") else 1
    verbs = words[place : place + 2]
    if command.program in ("degit", "tiged"):
        rest = words
    elif "clone" in verbs or verbs[:1] in (("checkout",), ("co",), ("export",)):
        if command.program == "git" and verbs[:1] != ("clone",):
            return ""
        rest = words[place + (1 if verbs[0] in ("clone", "checkout", "co", "export") else 2) :]
    else:
        return ""
    given = [
        word for number, word in enumerate(rest) if word[:1] != "-" and (not number or rest[number - 1] not in _VALUES)
    ]
    if not given:
        return ""
    name = (
        given[1] if len(given) > 1 else posixpath.basename(given[0].rstrip("/")).rpartition(":")[2].removesuffix(".git")
    )
    return path_in(base, name) if name.strip(UNKNOWN) else ""


def path_in(directory: str, word: str) -> str:
    """One spelling of a path that is named in a directory."""
    return posixpath.normpath(word if word.startswith(("/", "~")) else posixpath.join(directory, word))


def _runs(command: Command, folders: Sequence[str], *, root: bool) -> bool:
    """Whether a command runs code of one of these folders that its name or its rights make more than a build or a test."""
    words = command.words
    program = command.program
    if runs_script(command, folders):
        return True
    if "/" in command.path:
        path, name = path_in(command.directory, command.path), posixpath.basename(command.path)
        return root and is_inside(path, folders) and name not in _CHECKED
    if program in _BUILDERS:
        folder = next(
            (words[place + 1] for place, word in enumerate(words[:-1]) if word in ("-C", "--prefix", "-f")), "."
        )
        if not is_inside(path_in(command.directory, folder), folders):
            return False
        if program in ("ansible-playbook", "terraform"):
            return program == "ansible-playbook" or "apply" in words
        if program in ("npm", "pnpm", "yarn", "pip", "pip3", "cargo", "meson", "cmake"):
            return root or (program in ("npm", "pnpm") and not {"-g", "--global"}.isdisjoint(words))
        return root or any(_INSTALLS.fullmatch(word) for word in words)
    return False


def runs_script(command: Command, folders: Sequence[str]) -> bool:
    """Whether a command runs a script of one of these folders, by an interpreter or as a program that installs."""
    words, program = command.words, command.program
    if program in SHELLS or program in ("source", ".") or find_interpreter(program) is not None:
        if not words or not {"-c", "-m", "-e"}.isdisjoint(words[:1]):
            return False
        script = next((word for word in words if word[:1] != "-"), "")
        return bool(script) and is_inside(path_in(command.directory, script), folders)
    if "/" in command.path:
        path, name = path_in(command.directory, command.path), posixpath.basename(command.path)
        return is_inside(path, folders) and name not in _CHECKED and _SCRIPT.fullmatch(name) is not None
    return False


def is_inside(path: str, folders: Sequence[str]) -> bool:
    """Whether a path is one of these folders, or in one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
