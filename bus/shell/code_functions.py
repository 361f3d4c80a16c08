"""Functions of Python and other languages, and the commands of a shell that do the same."""

from __future__ import annotations

from collections.abc import Mapping
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
"""Methods of a path, and the commands that do the same."""
SHELLS: Final = frozenset(
    {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "commands.getoutput"}
    | {
        "invoke.run",
        "fabric.api.local",
        "fabric.api.run",
        "fabric.local",
        "delegator.run",
        "asyncio.create_subprocess_shell",
        "pexpect.spawn",
        "pexpect.run",
        "popen2.popen2",
    }
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
REQUESTS: Final = frozenset(
    {"request", "Request", "urllib.request.Request", "requests.request", "httpx.request", "stream"}
)
"""Functions and methods that get the method of an HTTP request and its address."""
REMOTE: Final[dict[str, frozenset[str]]] = {
    "exec_command": frozenset({"paramiko", "spur", "asyncssh"}),
    **dict.fromkeys(["run", "sudo", "local"], frozenset({"fabric", "invoke", "asyncssh"})),
    "exec_run": frozenset({"docker", "podman"}),
}
"""Methods that run a text on another machine or in a container, and the libraries that have them."""
JOINS: Final = frozenset({"os.path.join", "posixpath.join"})
SAME: Final = frozenset(
    {"str", "Path", "pathlib.Path", "pathlib.PosixPath", "PurePath", "os.fspath", "os.path.abspath", "os.path.realpath"}
    | {"os.path.expanduser", "os.path.normpath", "os.path.expandvars", "bytes", "shlex.quote"}
)
WRAPPERS: Final = frozenset(
    {"text", "sqlalchemy.text", "sql.SQL", "psycopg.sql.SQL", "string.Template", "Template", "DDL"}
)
"""Functions whose result counts as their argument."""
HOMES: Final = frozenset({"Path.home", "pathlib.Path.home"})
PYTHON_PROGRAMS: Final = {name: command[0] for name, command in (COMMANDS | METHODS | SERVICES).items()}
"""The program that does the same as each function and method."""
KNOWN: Final = {*COMMANDS, *SHELLS, *SPAWNS, *EXECS, *FETCHERS, "pathlib.Path"}
BELOW: Final = frozenset({"os.listdir", "os.scandir", "os.walk"})
UNCHANGED: Final = frozenset({"expanduser", "resolve", "absolute", "strip", "decode", "encode", "as_posix", "rstrip"})
"""Methods that give back what they are called on, as far as a path or a command goes."""

SCRIPT: Final = ("",)
"""The entry of a function that hands a text to a shell."""
DELETE, TREE, _DIRECTORY, WRITE, MOVE, COPY = ("rm",), ("rm", "-r"), ("rmdir",), ("tee",), ("mv",), ("cp",)
LINK: Final = ("ln", "-s")

_PERL: Final[dict[str, tuple[str, ...]]] = {
    "unlink": DELETE,
    "rmtree": TREE,
    "remove_tree": TREE,
    "rmdir": _DIRECTORY,
    "system": SCRIPT,
    "exec": SCRIPT,
    "qx": SCRIPT,
    "rename": MOVE,
    "move": MOVE,
    "copy": COPY,
    "truncate": ("truncate", "-s", "0"),
    "spew": WRITE,
    "chmod": ("chmod",),
    "kill": ("kill",),
    "write_file": WRITE,
}
_RUBY: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(["rm_rf", "rm_r", "remove_dir", "remove_entry", "remove_entry_secure", "rmtree", "rm_tree"], TREE),
    **dict.fromkeys(["FileUtils.rm", "FileUtils.rm_f", "FileUtils.remove", "File.delete", "File.unlink"], DELETE),
    **dict.fromkeys(["Dir.rmdir", "Dir.delete", "Dir.unlink"], _DIRECTORY),
    **dict.fromkeys(
        [
            "system",
            "exec",
            "spawn",
            "IO.popen",
            "%x",
            "sh",
            "Open3.capture2",
            "Open3.capture3",
            "Open3.capture2e",
            "Open3.popen3",
        ],
        SCRIPT,
    ),
    **dict.fromkeys(["File.write", "IO.write"], WRITE),
    "File.rename": MOVE,
    "FileUtils.mv": MOVE,
    "FileUtils.cp": COPY,
    "Process.kill": ("kill",),
    "File.truncate": ("truncate", "-s", "0"),
    "FileUtils.chmod_R": ("chmod", "-R"),
    "File.chmod": ("chmod",),
    "FileUtils.chmod": ("chmod",),
    "File.symlink": LINK,
}
_NODE: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(["rmSync", "rmdirSync", "rm", "rmdir", "Deno.remove", "Deno.removeSync"], DELETE),
    **dict.fromkeys(["unlinkSync", "unlink"], DELETE),
    **dict.fromkeys(
        [
            "rimraf",
            "rimrafSync",
            "rimraf.sync",
            "removeSync",
            "emptyDirSync",
            "emptyDir",
            "fse.remove",
            "del.sync",
            "deleteSync",
            "deleteAsync",
            "shell.rm",
        ],
        TREE,
    ),
    **dict.fromkeys(
        [
            "execSync",
            "exec",
            "spawnSync",
            "spawn",
            "execFileSync",
            "execFile",
            "Deno.Command",
            "Bun.spawn",
            "Bun.spawnSync",
            "execa",
            "execaSync",
            "Bun.$",
            "$",
        ],
        SCRIPT,
    ),
    **dict.fromkeys(["writeFileSync", "writeFile", "outputFileSync", "Bun.write", "Deno.writeTextFileSync"], WRITE),
    **dict.fromkeys(["truncateSync", "truncate"], ("truncate", "-s", "0")),
    **dict.fromkeys(["renameSync", "rename", "moveSync"], MOVE),
    **dict.fromkeys(["copyFileSync", "cpSync"], COPY),
    **dict.fromkeys(["symlinkSync", "symlink"], LINK),
    **dict.fromkeys(["appendFileSync", "appendFile"], ("tee", "-a")),
    **dict.fromkeys(["chmodSync"], ("chmod",)),
    "process.kill": ("kill",),
}
_PHP: Final[dict[str, tuple[str, ...]]] = {
    "unlink": DELETE,
    "rmdir": _DIRECTORY,
    "deleteDirectory": TREE,
    "rename": MOVE,
    "copy": COPY,
    "file_put_contents": WRITE,
    "chmod": ("chmod",),
    "posix_kill": ("kill",),
    **dict.fromkeys(["system", "exec", "shell_exec", "passthru", "popen", "proc_open", "pcntl_exec"], SCRIPT),
}
_LUA: Final[dict[str, tuple[str, ...]]] = {"os.execute": SCRIPT, "io.popen": SCRIPT, "os.remove": DELETE}
_APPLE: Final[dict[str, tuple[str, ...]]] = {"do shell script": SCRIPT, "do script": SCRIPT, "doShellScript": SCRIPT}
_R: Final[dict[str, tuple[str, ...]]] = {
    "unlink": DELETE,
    "file.remove": DELETE,
    "dir_delete": TREE,
    "file_delete": DELETE,
    **dict.fromkeys(["system", "system2", "shell"], SCRIPT),
    "file.rename": MOVE,
    "file.copy": COPY,
}
_JULIA: Final[dict[str, tuple[str, ...]]] = {"rm": DELETE, "run": SCRIPT, "mv": MOVE, "cp": COPY}
_ELIXIR: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(["File.rm_rf!", "File.rm_rf"], TREE),
    **dict.fromkeys(["File.rm!", "File.rm"], DELETE),
    **dict.fromkeys(["System.cmd", "System.shell", "os.cmd"], SCRIPT),
}

LANGUAGES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "perl": _PERL,
    "ruby": _RUBY,
    "node": _NODE,
    "nodejs": _NODE,
    "deno": _NODE,
    "bun": _NODE,
    "tsx": _NODE,
    "php": _PHP,
    "lua": _LUA,
    "luajit": _LUA,
    "osascript": _APPLE,
    "ts-node": _NODE,
    "jruby": _RUBY,
    "mongosh": _NODE,
    "r": _R,
    "rscript": _R,
    "julia": _JULIA,
    "elixir": _ELIXIR,
    "iex": _ELIXIR,
}
"""By program, what its functions are as commands."""
