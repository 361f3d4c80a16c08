"""Files of code that a line has written and that it then runs or compiles: `cat > x.go <<EOF …; go run x.go`."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from bus.shell.commands import Command
from bus.shell.inner import TAKES_WORDS, Inner, names
from bus.shell.interpreters import find_interpreter
from bus.shell.powershell import powershell_calls
from bus.shell.programs.compiled_code import commanded, other_calls
from bus.shell.words import Output

_NODE: Final = dict.fromkeys(names(".js .mjs .cjs .ts .mts .cts .jsx .tsx"), "node")
_OTHER: Final = dict.fromkeys(
    names(
        ".go .rs .java .kt .kts .scala .sc .groovy .gradle .c .cc .cpp .cxx .m .mm .swift .cs .csx .fs .fsx .vb .dart .zig .nim"
        " .hs .ml .cr .v .d .odin .tcl .exp .clj .cljs .bb .lisp .el .rkt .scm .awk .erl .pas .f90 .adb .vbs .raku"
    ),
    "",
)
_LANGUAGES: Final[Mapping[str, str]] = {
    **_NODE,
    **_OTHER,
    **dict.fromkeys([".py", ".pyw"], "python"),
    **dict.fromkeys([".pl", ".pm"], "perl"),
    **dict.fromkeys([".rb", ".rake"], "ruby"),
    **dict.fromkeys([".r", ".R"], "r"),
    **dict.fromkeys([".ex", ".exs"], "elixir"),
    **dict.fromkeys([".sh", ".bash", ".zsh", ".ksh"], "sh"),
    **dict.fromkeys([".ps1", ".psm1", ".bat", ".cmd"], "pwsh"),
    ".php": "php",
    ".lua": "lua",
    ".jl": "julia",
    ".scpt": "osascript",
}
"""By ending, the interpreter of such a file; empty for a language whose functions are not listed."""
_LOOKS: Final = TAKES_WORDS | names(
    "git chmod chown chgrp sed gsed sort black isort gofmt goimports golangci-lint rustfmt clang-format clang-tidy"
    " code vim vi nvim nano emacs less more bat stat scp rsync tar zip gzip aws gsutil gcloud terraform gh mkdir truncate"
    " shfmt biome oxlint rubocop perltidy phpcs phpstan standard stylelint pylint flake8 pyright tsc vulture bandit"
    " markdownlint cloc tokei wc file du shasum sha1sum cksum strings od xxd hexdump open xdg-open pbcopy xclip touch find fd"
)
"""Programs that look at a file of code, format, check or copy it, and do not run it."""
_BY_FOLDER: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    "go": (names(".go"), names("run generate test")),
    "cargo": (names(".rs"), names("run r test t bench b build")),
    "dotnet": (names(".cs .fs .vb .csx .fsx"), names("run test watch script")),
    "swift": (names(".swift"), names("run test")),
    "zig": (names(".zig"), names("build run test")),
    "dart": (names(".dart"), names("run test")),
    "flutter": (names(".dart"), names("run test")),
    "sbt": (names(".scala .java"), names("run test")),
    "mill": (names(".scala"), names("run")),
    "scala-cli": (names(".scala .sc"), names("run")),
    "stack": (names(".hs"), names("run test exec build")),
    "cabal": (names(".hs"), names("run test")),
    "mix": (names(".ex .exs"), names("run test")),
    "npm": (frozenset(_NODE), names("start run exec")),
    "crystal": (names(".cr"), names("run spec")),
    "nimble": (names(".nim"), names("run")),
    "dune": (names(".ml"), names("exec test")),
    "rake": (names(".rb .rake"), frozenset()),
    **dict.fromkeys(
        ["mvn", "mvnw", "gradle", "gradlew"], (names(".java .kt .groovy .gradle .kts .scala"), frozenset())
    ),
}
"""By program, the endings of the files that it runs without being told their names, and the verbs with which it does."""
_BY_NAME: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(["pytest", "py.test"], ("conftest.py",)),
    **dict.fromkeys(["pip", "pip3"], ("setup.py",)),
    **dict.fromkeys(["invoke", "inv"], ("tasks.py",)),
    **dict.fromkeys(["rake", "rails"], ("Rakefile",)),
    "nox": ("noxfile.py",),
    "fab": ("fabfile.py",),
    "scons": ("SConstruct",),
    "gulp": ("gulpfile.js", "gulpfile.mjs"),
    "grunt": ("Gruntfile.js",),
    "jest": ("jest.config.js", "jest.setup.js"),
    "vite": ("vite.config.ts", "vite.config.js"),
    "webpack": ("webpack.config.js",),
    "vagrant": ("Vagrantfile",),
    "fastlane": ("Fastfile",),
    "cap": ("Capfile", "deploy.rb"),
}
"""By program, the files of code that it runs without being told their names."""
_RUBY_NAMES: Final = names("Rakefile Vagrantfile Fastfile Capfile")
_AWKS: Final = names("awk gawk mawk nawk")
_MOST: Final = 16
PathOf = Callable[[Command, str], str]


def code_files(command: Command, texts: Mapping[str, str], path_of: PathOf, read: str | None) -> Iterator[Inner]:
    """What the files of code among `texts` (by path) do that the command runs; `read` is a text that was read already."""
    if command.depth > 2:
        return
    for name in _BY_NAME.get(command.program, ()):
        for path in [one for one in texts if posixpath.basename(one) == name][:_MOST]:
            yield from code_of(path, texts[path])
            yield from commanded(texts[path])
    if command.program in _LOOKS:
        return
    paths: dict[str, None] = {}
    words = command.words[:64]
    if command.program in _AWKS:  # its other operands are what it reads
        words = tuple(word for place, word in enumerate(words) if place and words[place - 1] in ("-f", "--file"))
    for word in words:
        name = word.rpartition("=")[2].lstrip("@")
        if _ending(name) in _LANGUAGES and (path := path_of(command, name)) in texts:
            paths[path] = None
    if command.program == "java" and command.words:  # `javac Main.java && java Main`
        paths |= dict.fromkeys(one for one in texts if posixpath.basename(one) == f"{command.words[-1]}.java")
    if (runner := _BY_FOLDER.get(command.program)) is not None and not paths:
        endings, verbs = runner
        if not verbs or not verbs.isdisjoint(command.words[:3]):
            paths = dict.fromkeys(one for one in texts if _ending(one) in endings)
    for path in list(paths)[:_MOST]:
        if texts[path] != read:
            yield from code_of(path, texts[path])


def code_of(path: str, text: str) -> Iterator[Inner]:
    """What the text of a file does when it is run, by the ending of its path."""
    language = "ruby" if posixpath.basename(path) in _RUBY_NAMES else _LANGUAGES.get(_ending(path))
    if language == "sh":
        yield Inner(script=text)
    elif language == "pwsh":
        yield from powershell_calls(text)
    elif language and (interpreter := find_interpreter(language)) is not None:
        yield from interpreter((), Output(text))
    elif language is not None:
        yield from other_calls(text)


def _ending(path: str) -> str:
    return posixpath.splitext(path)[1]
