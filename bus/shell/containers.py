"""What a container does to the host: commands that reach the host's files through a volume."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from bus.shell.inner import Arg, Inner, Unwrap, names, read_options
from bus.shell.script_runners import SHELLS
from bus.shell.words import CONTAINER_DATA, Output

_VALUES: Final = names(
    "-v -w -e -u -p -l -h -m -c -a --volume --mount --workdir --env --user --publish --label --hostname --memory --name"
    " --network --net --entrypoint --env-file --platform --cpus --gpus --device --add-host --cap-add --cap-drop --pid"
    " --ipc --restart --security-opt --shm-size --tmpfs --ulimit --userns --volumes-from --pull --runtime --dns --cpu-shares"
    " --log-driver --log-opt --stop-signal --ip --link --expose --cidfile --cgroupns --uts --group-add --annotation"
    " -H --host --context --config --log-level"
)
_ABSOLUTE: Final = re.compile(r"(?<![\w.$~:/-])/[^\s'\";|&()<>]*")
_INSIDE: Final = "/tmp/.container"  # noqa: S108  (never opened: it means "not on this machine's disk")
_SCRATCH: Final = re.compile(
    r"/(?:tmp|\.?cache|caches|node_modules|__pycache__|dist|build|\.next|\.nuxt|logs?|coverage|target|run|lists|out|\.?venv"
    r"|\.pytest_cache|\.mypy_cache|scratch|workspace|\.npm|\.turbo)(?:/|$|\*)|\.(?:pyc|log|lock|pid|tmp)$|^/(?:bin|usr/bin|dev)/"
)
_LOOKED_INTO: Final = SHELLS | names(
    "rm find unlink shred truncate rmdir mv dd xargs env sudo su gosu busybox fleethook"
)
_OWN: Final = "fleethook"
"""Looked into in every container: what it switches off is this machine's where they share a server or a volume."""
_EXEC_VALUES: Final = names(
    "-c --container -n --namespace --context --kubeconfig --cluster --user -u -e --env --env-file -w --workdir --index"
    " --detach-keys -f --file -p --project-name --profile --project-directory -H --host --as --cwd --image --target -l"
    " --entrypoint --name -v --volume --pod-running-timeout -s --server --token -i -t"
) - names("-i -t")
_NOTHING: Final = Output()
_EXECS: Final = names("exec rsh")


def _run(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`docker run -v /:/host image rm -rf /host/etc`, with the paths as they are outside of the container."""
    yield from _exec(args)
    options = read_options(args, _VALUES)
    verb = options.end + (args[options.end : options.end + 1] == [Arg("container")])
    if verb >= len(args) or args[verb].text not in ("run", "create"):
        return
    options = read_options(args, _VALUES, start=verb + 1)
    mounts = [mount for name, value in options.items if (mount := _mount(name, value.text))]
    entry = options.value("--entrypoint")
    command = args[options.end + 1 :]
    if options.has("--volumes-from"):
        yield from _kept(command)
        return
    if options.has("--privileged") and command[:1] and command[0].text.endswith(("nsenter", "chroot")):
        yield Inner(argv=tuple(command))
        return
    if not mounts or not (command or entry):
        own = (entry, *command) if entry is not None else tuple(command)
        if own and _name(own[0]) == _OWN:
            yield Inner(argv=own)
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
    if not target:
        return None
    return (source if source[:1] in ("/", ".", "~", "\0", "\1") else f"{CONTAINER_DATA}/volume", target.rstrip("/"))


def _exec(args: Sequence[Arg], _stdin: Output = _NOTHING) -> Iterator[Inner]:
    """`docker exec db rm -rf /data`, `docker compose run app …`, `kubectl exec pod -- …`; paths of data are marked."""
    options = read_options(args, _EXEC_VALUES)
    place = options.end
    compose = False
    while place < len(args) and args[place].text in ("compose", "container", "task"):
        compose = args[place].text == "compose"
        place = read_options(args, _EXEC_VALUES, start=place + 1).end
    if place >= len(args):
        return
    verb = args[place].text
    if verb not in _EXECS and not (verb == "debug" or (verb == "run" and compose)):
        return
    place = read_options(args, _EXEC_VALUES, start=place + 1).end + 1  # the container's name
    place = read_options(args, _EXEC_VALUES, start=place).end if place < len(args) else place
    yield from _kept(args[place:])


def _compose(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    yield from _exec([Arg("compose"), *args])


def _kept(command: Sequence[Arg]) -> Iterator[Inner]:
    """A command in a container that runs on: what it deletes outside of caches and temporary places is data."""
    if command and (name := _name(command[0])) in _LOOKED_INTO:
        inner = tuple(Arg(_ABSOLUTE.sub(_marked, arg.text), arg.sources) for arg in command[1:])
        yield Inner(argv=(Arg(name), *inner), directory=_INSIDE)


def _name(program: Arg) -> str:
    return program.text.rpartition("/")[2]


def _marked(match: re.Match[str]) -> str:
    return f"{_INSIDE}{match[0]}" if _SCRATCH.search(match[0]) else f"{CONTAINER_DATA}{match[0]}".rstrip("/")


def _outside(text: str, mounts: Sequence[tuple[str, str]]) -> str:
    """A text with the paths in a container replaced by those of the host."""

    def outside(match: re.Match[str]) -> str:
        path = match[0]
        for source, target in sorted(mounts, key=lambda mount: -len(mount[1])):
            if path == target or path.startswith(f"{target}/"):
                return source.rstrip("/") + path[len(target) :] or "/"
        return path if path.startswith("/bin/") else _INSIDE + path

    return _ABSOLUTE.sub(outside, text)


CONTAINERS: Final[dict[str, Unwrap]] = {
    **dict.fromkeys(["docker", "podman", "nerdctl"], _run),
    **dict.fromkeys(["kubectl", "oc", "crictl", "k"], _exec),
    **dict.fromkeys(["docker-compose", "podman-compose"], _compose),
}
"""By program."""
