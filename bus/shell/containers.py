"""What a container does to the host: commands that reach the host's files through a volume."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from bus.shell.inner import Arg, Inner, Unwrap, names, read_options
from bus.shell.words import Output

_VALUES: Final = names(
    "-v -w -e -u -p -l -h -m -c -a --volume --mount --workdir --env --user --publish --label --hostname --memory --name"
    " --network --net --entrypoint --env-file --platform --cpus --gpus --device --add-host --cap-add --cap-drop --pid"
    " --ipc --restart --security-opt --shm-size --tmpfs --ulimit --userns --volumes-from --pull --runtime --dns --cpu-shares"
    " --log-driver --log-opt --stop-signal --ip --link --expose --cidfile --cgroupns --uts --group-add --annotation"
    " -H --host --context --config --log-level"
)
_ABSOLUTE: Final = re.compile(r"(?<![\w.$~:/-])/[^\s'\";|&()<>]*")
_INSIDE: Final = "/tmp/.container"  # noqa: S108  (never opened: it means "not on this machine's disk")


def _run(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`docker run -v /:/host image rm -rf /host/etc`, with the paths as they are outside of the container."""
    options = read_options(args, _VALUES)
    verb = options.end + (args[options.end : options.end + 1] == [Arg("container")])
    if verb >= len(args) or args[verb].text not in ("run", "create"):
        return
    options = read_options(args, _VALUES, start=verb + 1)
    mounts = [mount for name, value in options.items if (mount := _mount(name, value.text))]
    entry = options.value("--entrypoint")
    command = args[options.end + 1 :]
    if not mounts or not (command or entry):
        return
    workdir = options.value("-w", "--workdir")
    inner = tuple(Arg(_outside(arg.text, mounts), arg.sources) for arg in command)
    directory = _outside(workdir.text, mounts) if workdir is not None else _INSIDE
    yield Inner(argv=(entry, *inner) if entry is not None else inner, directory=directory)


def _mount(name: str, value: str) -> tuple[str, str] | None:
    """What is mounted, and where; None for a named volume."""
    if name in ("-v", "--volume"):
        source, _, rest = value.partition(":")
        target = rest.partition(":")[0]
    elif name == "--mount":
        fields = dict(part.partition("=")[::2] for part in value.split(","))
        source = fields.get("source") or fields.get("src") or ""
        target = fields.get("target") or fields.get("destination") or fields.get("dst") or ""
    else:
        return None
    return (source, target.rstrip("/")) if target and source[:1] in ("/", ".", "~", "\0", "\1") else None


def _outside(text: str, mounts: Sequence[tuple[str, str]]) -> str:
    """A text with the paths in a container replaced by those of the host."""

    def outside(match: re.Match[str]) -> str:
        path = match[0]
        for source, target in sorted(mounts, key=lambda mount: -len(mount[1])):
            if path == target or path.startswith(f"{target}/"):
                return source.rstrip("/") + path[len(target) :] or "/"
        return path if path.startswith("/bin/") else _INSIDE + path

    return _ABSOLUTE.sub(outside, text)


CONTAINERS: Final[dict[str, Unwrap]] = dict.fromkeys(["docker", "podman", "nerdctl"], _run)
"""By program."""
