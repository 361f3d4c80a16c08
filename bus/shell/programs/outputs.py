"""Options and operands by which a program writes a file: `sort -o FILE`, `find -fprint FILE`, `tar -C DIR`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import names

Words = Sequence[str]


def value_of(words: Words, short: str, long: str, *, clustered: bool = False) -> str:
    """The value of an option in `-o x`, `-ox`, `--out x` or `--out=x`, if `clustered` also in `-so x`; else empty."""
    for place, word in enumerate(words):
        if word[:1] != "-":
            continue
        if word in (short, long) or (clustered and word[-1] == short[1] and word[1:].isalpha()):
            return words[place + 1] if place + 1 < len(words) else ""
        if word.startswith(f"{long}="):
            return word[len(long) + 1 :]
        if word.startswith(short) and not word.startswith("--"):
            return word[len(short) :]
    return ""


def _options(text: str) -> Callable[[Words], tuple[str, ...]]:
    """The values of options that are words of their own: `-fprint FILE`, `--output FILE`, `--output=FILE`."""
    known = names(text)
    signs = tuple(f"{name}=" for name in known)

    def files(words: Words) -> tuple[str, ...]:
        if known.isdisjoint(words) and "=" not in "".join(words):
            return ()  # as most calls are
        found: list[str] = []
        for place, word in enumerate(words):
            if word[:1] != "-":
                continue
            if word in known:
                found += words[place + 1 : place + 2]
            elif word.startswith(signs):
                found.append(word.partition("=")[2])
        return tuple(found)

    return files


def _words(text: str) -> Callable[[Words], tuple[str, ...]]:
    """As `_options`, for options whose value is always a word of its own."""
    known = names(text)

    def files(words: Words) -> tuple[str, ...]:
        if known.isdisjoint(words):
            return ()
        return tuple(words[place + 1] for place, word in enumerate(words[:-1]) if word in known)

    return files


def _short(short: str, long: str) -> Callable[[Words], tuple[str, ...]]:
    def files(words: Words) -> tuple[str, ...]:
        if short[1] not in "".join(words):
            return ()  # as in most calls
        value = value_of(words, short, long, clustered=True)
        return (value,) if value else ()

    return files


def _operands(words: Words) -> list[str]:
    return [word for word in words if word[:1] != "-"]


def _last_of_two(words: Words) -> tuple[str, ...]:
    return tuple(_operands(words)[1:2])


_IN_PLACE: Final = names("-i --inplace -iinplace")


def _in_place(words: Words) -> tuple[str, ...]:
    """The files that `yq -i` and `gawk -i inplace` change: their operands behind the expression."""
    return () if _IN_PLACE.isdisjoint(words) else tuple(_operands(words))


def _ruby(words: Words) -> tuple[str, ...]:
    return tuple(_operands(words)) if any(word[:2] in ("-i", "-p", "-n") and "i" in word for word in words) else ()


def _below(folders: tuple[str, ...]) -> tuple[str, ...]:
    """A made-up file in each folder, for the files that are unpacked there."""
    return tuple(f"{folder.rstrip('/')}/unpacked" for folder in folders if folder.rstrip("/"))


_FOLDERS: Final = _options("-C --directory")


def _tar(words: Words) -> tuple[str, ...]:
    folders = _FOLDERS(words)
    if not words:
        return ()
    first = words[0]
    unpacks = any(word in ("--extract", "--get") for word in words) or any(
        "x" in word.partition("=")[0] for word in words if word[:1] == "-" and word[1:2] != "-"
    )
    if not unpacks and not (first[:1] != "-" and "x" in first):
        return ()
    folders += tuple(word.partition("=")[2] for word in words if word.startswith("--one-top-level="))
    return ("/unpacked",) if "/" in folders else _below(folders) or ("unpacked",)


def _unzip(words: Words) -> tuple[str, ...]:
    return (
        (_below(_words("-d")(words)) or ("unpacked",)) if not {"-l", "-t", "-Z", "-v", "-p"}.intersection(words) else ()
    )


def _seven(words: Words) -> tuple[str, ...]:
    return _below(tuple(word[2:] for word in words if word[:2] == "-o")) if words[:1] in (("x",), ("e",)) else ()


def _patch(words: Words) -> tuple[str, ...]:
    """`patch FILE x.diff`, `patch -o FILE x`."""
    return _options("-o --output")(words) or tuple(_operands(words)[:1])


def _crudini(words: Words) -> tuple[str, ...]:
    return tuple(words[1:2]) if words[:1] in (("--set",), ("--del",), ("--merge",)) else ()


def _script(words: Words) -> tuple[str, ...]:
    """`script -c ls FILE`."""
    return tuple(words[-1:]) if len(words) > 1 and words[-2][-1:] not in ("c", "I", "O", "B") else ()


def _last(words: Words) -> tuple[str, ...]:
    return tuple(words[-1:]) if len(words) > 1 and words[-1][:1] != "-" else ()


def _aria(words: Words) -> tuple[str, ...]:
    folder, file = value_of(words, "-d", "--dir"), value_of(words, "-o", "--out")
    return (f"{folder}/{file or 'download'}",) if folder else (file,) if file else ()


_GIT_WRITES: Final = names(
    "commit checkout switch add apply am merge rebase reset restore rm mv stash pull cherry-pick revert clean init tag"
)
_GIT_MAKES: Final = names("config clone init worktree format-patch bundle")
_GIT_VALUES: Final = names(
    "-b --branch --depth -o --origin -c --config --reference -u --upload-pack -j --jobs --filter --template"
)
_GIT_CHANGES: Final = names("--unset --unset-all --add --replace-all --remove-section --rename-section -e --edit unset")
_GIT_READS: Final = names("--get --get-all --get-regexp --get-urlmatch --list -l --show-origin list get")


def git_writes(words: Words, directory: str) -> tuple[str, ...]:
    """A made-up file in the work tree that git changes if it is elsewhere, or the file or folder that it writes."""
    folder, file, place = "", "", 0
    if directory == "." and words and words[0][:1] != "-" and words[0] not in _GIT_MAKES:
        return ()  # as most calls are
    while place < len(words) and words[place][:1] == "-":
        if words[place] in ("-C", "-c"):
            folder = words[place + 1] if words[place] == "-C" and place + 1 < len(words) else folder
            place += 1
        elif words[place].startswith(("--git-dir=", "--work-tree=")):
            folder = words[place].partition("=")[2].removesuffix("/.git")
        place += 1
    verb, rest = (words[place], words[place + 1 :]) if place < len(words) else ("", ())
    if verb == "config":
        file = value_of(rest, "-f", "--file") if _GIT_READS.isdisjoint(rest) else ""
        if len([word for word in rest if word[:1] != "-" and word != file]) < 2 and _GIT_CHANGES.isdisjoint(rest):
            return ()  # it shows a value
        return (file,) if file else ()
    if verb in ("clone", "init", "worktree"):
        operands = [
            word
            for number, word in enumerate(rest)
            if word[:1] != "-" and (not number or rest[number - 1] not in _GIT_VALUES)
        ]
        if verb == "worktree":
            return tuple(f"{one.rstrip('/')}/cloned" for one in operands[1:2]) if operands[:1] == ["add"] else ()
        target = operands[:1] if verb == "init" else operands[1:2]
        return tuple(f"{one.rstrip('/')}/cloned" for one in target)
    if verb in ("format-patch", "bundle"):
        made = value_of(rest, "-o", "--output-directory") if verb == "format-patch" else "".join(rest[1:2])
        return (made,) if made and (verb != "bundle" or rest[:1] == ("create",)) else ()
    if verb not in _GIT_WRITES or (
        verb in ("tag", "stash") and (not rest or rest[0] in ("-l", "--list", "list", "show"))
    ):
        return ()
    return (f"{folder.rstrip('/') or '.'}/work-tree",) if folder or directory != "." else ()


def _ssh_keygen(words: Words) -> tuple[str, ...]:
    return () if any(word in _KEYGEN_READS for word in words) else _words("-f")(words)


_KEYGEN_READS: Final = names("-l -y -e -B -F -D -r")
"""Options of `ssh-keygen` with which it only shows something."""


_SQL_CHANGES: Final = lazy_regex(r"(?i)\b(?:create|insert|update|delete|drop|alter|replace)\b")


_SQLITE_FILE: Final = lazy_regex(r"\.(?:backup|save|output|once|clone|log|vfsname)\s+(?:main\s+)?[\"']?([^\s\"']+)")


def _sqlite(words: Words) -> tuple[str, ...]:
    """The database, where the SQL behind it changes something."""
    given = _operands(words)
    return (
        tuple(given[:1])
        if any(_SQL_CHANGES.search(word) for word in given[1:])
        else tuple(match[1] for word in given[1:] if (match := _SQLITE_FILE.match(word)) is not None)
    )


def _split(words: Words) -> tuple[str, ...]:
    """The prefix of the files of `split -b 1M FILE PREFIX`."""
    given = [
        word for place, word in enumerate(words) if word[:1] != "-" and (not place or words[place - 1] not in _SIZES)
    ]
    return tuple(given[1:2])


_SIZES: Final = names("-b -l -n -C -a --bytes --lines --number --line-bytes --suffix-length --additional-suffix")


def _make(words: Words) -> tuple[str, ...]:
    """Where `make install PREFIX=DIR` installs to; without a folder, that is the system."""
    if "install" not in words:
        return ()
    folders = tuple(word.partition("=")[2] for word in words if word.startswith(("PREFIX=", "prefix=", "DESTDIR=")))
    return ("/usr/local/unpacked",) if not folders or "/" in folders else _below(folders)


def _archive(words: Words) -> tuple[str, ...]:
    """The archive of `zip -r FILE a b`: the first operand."""
    return tuple(_operands(words)[:1])


def _venv(words: Words) -> tuple[str, ...]:
    return _below(tuple(_operands(words[2:])[:1])) if words[:2] in (("-m", "venv"), ("-m", "virtualenv")) else ()


def _copied(words: Words) -> tuple[str, ...]:
    """The local target of a copy from elsewhere: `aws s3 cp s3://bucket/x DIR`, `kubectl cp pod:/x DIR`."""
    given = _operands(words)
    if len(given) < 3 or _COPY_VERBS.isdisjoint(given[:2]) or ":" in given[-1] or ":" not in given[-2]:
        return ()
    return (given[-1],)


_COPY_VERBS: Final = names("cp copy sync mv move get copyto cat rsync mirror")


def _into(text: str) -> Callable[[Words], tuple[str, ...]]:
    """A made-up file in each folder that options name."""
    folders = _options(text)
    return lambda words: _below(folders(words))


def _made_below(*verbs: str) -> Callable[[Words], tuple[str, ...]]:
    """A made-up file in the folder that is the first operand behind one of these verbs: `cargo new DIR`."""

    def files(words: Words) -> tuple[str, ...]:
        given = _operands(words)
        return _below(tuple(given[1:2])) if given and given[0] in verbs else ()

    return files


def _of_all(*parts: Callable[[Words], tuple[str, ...]]) -> Callable[[Words], tuple[str, ...]]:
    return lambda words: tuple(file for part in parts for file in part(words))


def _protoc(words: Words) -> tuple[str, ...]:
    """`protoc --go_out=DIR`."""
    return _below(tuple(word.partition("=")[2].rpartition(":")[2] for word in words if "_out=" in word))


def _unrar(words: Words) -> tuple[str, ...]:
    given = _operands(words)
    return _below(tuple(given[-1:])) if given[:1] in (["x"], ["e"]) and len(given) > 2 else ()


def _python(words: Words) -> tuple[str, ...]:
    """`python -m venv DIR`, `python -m zipfile -e FILE DIR`."""
    if words[:2] in (("-m", "zipfile"), ("-m", "tarfile")) and not {"-e", "--extract"}.isdisjoint(words):
        return _below(tuple(_operands(words)[-1:]))
    return _venv(words)


_O: Final = _short("-o", "--output")
OUTPUTS: Final[Mapping[str, Callable[[Words], tuple[str, ...]]]] = {
    **dict.fromkeys(["sort", "gsort", "shuf", "gshuf", "pandoc", "iconv", "strace", "ltrace", "time", "gtime"], _O),
    **dict.fromkeys(["gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "rustc"], _words("-o")),
    **dict.fromkeys(["find", "gfind", "bfs"], _words("-fprint -fprint0 -fprintf -fls")),
    **dict.fromkeys(["go", "javac", "zig", "nim"], _words("-o -d")),
    **dict.fromkeys(["pip", "pip3"], _into("-t --target --prefix --root -d --dest -w --wheel-dir")),
    "openssl": _words("-out -keyout"),
    "ssh-keygen": _ssh_keygen,
    **dict.fromkeys(["make", "gmake", "ninja"], _make),
    **dict.fromkeys(["cmake", "meson"], lambda words: _below(_options("--prefix --destdir --install-prefix")(words))),
    **dict.fromkeys(["npm", "gem", "bundle"], _into("--prefix --root --install-dir")),
    "cargo": _of_all(_into("--prefix --root --target-dir"), _made_below("new", "init")),
    **dict.fromkeys(
        ["poetry", "rails", "django-admin", "ng", "nest", "dart", "flutter", "mix"],
        _made_below("new", "create"),
    ),
    "protoc": _protoc,
    "hugo": _of_all(_into("-d --destination"), _made_below("new")),
    **dict.fromkeys(
        ["tsc", "vite", "rollup", "parcel", "esbuild", "babel", "swc", "tsup", "webpack", "sass", "ncc", "bun"],
        _of_all(
            _into("--outDir --outdir --out-dir --dist-dir --output-path --dir -d"),
            _options("--outFile --outfile --out-file --file"),
        ),
    ),
    **dict.fromkeys(
        ["mkdocs", "jekyll", "eleventy", "gitbook", "mdbook"], _into("-d --site-dir --destination --output --dest-dir")
    ),
    "sphinx-build": lambda words: _below(tuple(_operands(words)[1:2])),
    **dict.fromkeys(["jupyter", "jupyter-nbconvert"], _of_all(_into("--output-dir"), _options("--output"))),
    **dict.fromkeys(["convert", "magick", "gm", "rsvg-convert", "cwebp", "gs"], _last),
    **dict.fromkeys(["unrar", "unar"], _unrar),
    "stow": _into("-t --target"),
    **dict.fromkeys(["pg_dump", "pg_dumpall"], _short("-f", "--file")),
    "pg_basebackup": lambda words: _below(_options("-D --pgdata")(words)),
    "mysqldump": _short("-r", "--result-file"),
    **dict.fromkeys(["mongodump", "mongoexport"], _options("-o --out --archive")),
    "redis-cli": _options("--rdb"),
    **dict.fromkeys(["gpg", "gpg2", "age", "minisign"], _options("-o --output")),
    **dict.fromkeys(["zip", "7zip", "rar"], _archive),
    "virtualenv": lambda words: _below(tuple(_operands(words)[:1])),
    "uv": lambda words: _below(tuple(_operands(words)[1:2])) if words[:1] in (("venv",), ("init",)) else (),
    **dict.fromkeys(["python", "python3"], _python),
    **dict.fromkeys(["rclone", "aws", "gsutil", "s3cmd", "mc", "kubectl"], _copied),
    **dict.fromkeys(
        ["docker", "podman"], _of_all(_copied, lambda words: _O(words) if words[:1] in (("save",), ("export",)) else ())
    ),
    "xmllint": _options("--output -o"),
    "tcpdump": _words("-w"),
    "tshark": _words("-w"),
    **dict.fromkeys(["uniq", "guniq"], _last_of_two),
    "xxd": _last_of_two,
    **dict.fromkeys(["gawk", "awk", "yq", "dasel"], _in_place),
    **dict.fromkeys(["ruby", "jruby"], _ruby),
    **dict.fromkeys(["tar", "gtar", "bsdtar"], _tar),
    "unzip": _unzip,
    **dict.fromkeys(["7z", "7za", "7zz"], _seven),
    "cpio": lambda words: _below(_options("-D --directory")(words)),
    "patch": _patch,
    "crudini": _crudini,
    "script": _script,
    "split": _split,
    "sqlite3": _sqlite,
    "csplit": _options("-f --prefix"),
    "ffmpeg": _last,
    "aria2c": _aria,
    "sox": _last,
}
"""By program, a function that finds the written files among the program's words."""
