"""Functions and methods of Python, and the commands of a shell that do the same."""

from __future__ import annotations

from typing import Final

FETCHERS: Final = frozenset(
    {"urlopen", "urllib.request.urlopen", "urllib2.urlopen", "urllib.urlopen", "requests.get", "requests.post"}
    | {"httpx.get", "requests.request", "urllib.request.urlretrieve", "socket.socket.recv", "requests.Session"}
)
DECODERS: Final = frozenset(
    {"base64.b64decode", "base64.b32decode", "bytes.fromhex", "codecs.decode", "zlib.decompress"}
)
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "os.remove": ("rm",),
    "os.unlink": ("rm",),
    "os.rmdir": ("rmdir",),
    "os.removedirs": ("rmdir",),
    "shutil.rmtree": ("rm", "-r"),
    "send2trash.send2trash": ("rm", "-r"),
    "shutil.move": ("mv",),
    "os.rename": ("mv",),
    "os.renames": ("mv",),
    "os.replace": ("mv",),
    "shutil.copy": ("cp",),
    "shutil.copy2": ("cp",),
    "shutil.copyfile": ("cp",),
    "shutil.copytree": ("cp", "-r"),
    "os.symlink": ("ln", "-s"),
    "os.link": ("ln",),
    "os.truncate": ("truncate", "-s", "0"),
    "os.mkdir": ("mkdir",),
    "os.makedirs": ("mkdir", "-p"),
    "distutils.dir_util.remove_tree": ("rm", "-r"),
}
"""Functions whose arguments are those of a command."""
TWO: Final = frozenset({"mv", "cp", "ln"})
METHODS: Final[dict[str, tuple[str, ...]]] = {
    "unlink": ("rm",),
    "rmdir": ("rmdir",),
    "rmtree": ("rm", "-r"),
    "removedirs_p": ("rmdir",),
    "write_text": ("tee",),
    "write_bytes": ("tee",),
    "touch": ("touch",),
}
"""Methods of a path, and what they do to it."""
SHELLS: Final = frozenset(
    {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "commands.getoutput"}
    | {"asyncio.create_subprocess_shell", "pexpect.spawn", "pexpect.run", "popen2.popen2"}
)
SPAWNS: Final = frozenset(
    {"subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output", "subprocess.Popen"}
    | {"asyncio.create_subprocess_exec", "pty.spawn", "sh.Command"}
)
EXECS: Final = frozenset(
    f"os.{kind}{form}" for kind in ("exec", "spawn") for form in ("v", "ve", "vp", "l", "le", "lp")
) | {"os.posix_spawn", "os.posix_spawnp"}
SERVICES: Final[dict[str, tuple[str, ...]]] = {
    "flushall": ("redis-cli", "FLUSHALL"),
    "flushdb": ("redis-cli", "FLUSHDB"),
    "drop_database": ("mongosh", "--eval", "db.dropDatabase()"),
}
JOINS: Final = frozenset({"os.path.join", "posixpath.join"})
SAME: Final = frozenset(
    {"str", "Path", "pathlib.Path", "pathlib.PosixPath", "PurePath", "os.fspath", "os.path.abspath", "os.path.realpath"}
    | {"os.path.expanduser", "os.path.normpath", "os.path.expandvars", "bytes", "shlex.quote"}
)
HOMES: Final = frozenset({"Path.home", "pathlib.Path.home"})
KNOWN: Final = {*COMMANDS, *SHELLS, *SPAWNS, *EXECS, *FETCHERS, "pathlib.Path"}
BELOW: Final = frozenset({"os.listdir", "os.scandir", "os.walk"})
UNCHANGED: Final = frozenset({"expanduser", "resolve", "absolute", "strip", "decode", "encode", "as_posix", "rstrip"})
"""Methods that give back what they are called on, as far as a path or a command goes."""
