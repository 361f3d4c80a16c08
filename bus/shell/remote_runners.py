"""Programs that run commands elsewhere: in containers, on other machines, in PowerShell and cmd.exe."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Arg, Inner, Unwrap, names, read_options, script_of
from bus.shell.powershell import powershell_calls
from bus.shell.programs.running_words import CONTAINERS_RUNNING, EXECS
from bus.shell.script_runners import SHELLS
from bus.shell.words import CONTAINER_DATA, Output

_VALUES: Final = names(
    "-v -w -e -u -p -l -h -m -c -a --volume --mount --workdir --env --user --publish --label --hostname --memory --name"
    " --network --net --entrypoint --env-file --platform --cpus --gpus --device --add-host --cap-add --cap-drop --pid"
    " --ipc --restart --security-opt --shm-size --tmpfs --ulimit --userns --volumes-from --pull --runtime --dns --cpu-shares"
    " --log-driver --log-opt --stop-signal --ip --link --expose --cidfile --cgroupns --uts --group-add --annotation"
    " -H --host --context --config --log-level"
)
_ABSOLUTE: Final = lazy_regex(r"(?<![\w.$~:/-])/[^\s'\";|&()<>]*")
_INSIDE: Final = "/tmp/.container"  # noqa: S108  (never opened: it means "not on this machine's disk")
_SCRATCH: Final = lazy_regex(
    r"/(?:tmp|\.?cache|caches|node_modules|__pycache__|dist|build|\.next|\.nuxt|logs?|coverage|target|run|lists|out|\.?venv"
    r"|\.pytest_cache|\.mypy_cache|scratch|workspace|\.npm|\.turbo)(?:/|$|\*)|\.(?:pyc|log|lock|pid|tmp)$|^/(?:bin|usr/bin|dev)/"
)
_LOOKED_INTO: Final = SHELLS | names(
    "rm find unlink shred truncate rmdir mv dd xargs env sudo su gosu busybox fleethook chroot nsenter curl wget http xh"
)
_FAR: Final = names(
    "git terraform tofu terragrunt pulumi kubectl helm aws gcloud gsutil az doctl heroku fly flyctl vercel netlify railway"
    " supabase wrangler eksctl"
    " psql mysql mariadb mongosh mongo redis-cli valkey-cli clickhouse-client cqlsh sqlcmd dropdb mysqladmin pg_restore"
    " kafka-topics kafka-topics.sh kafka-consumer-groups kafka-consumer-groups.sh kafka-configs kafka-configs.sh"
    " kafka-delete-records kafka-delete-records.sh rabbitmqctl rabbitmqadmin nats rpk celery etcdctl nodetool influx"
    " pulsar-admin mc vault consul bin/pulsar-admin ceph rbd rados radosgw-admin patronictl cockroach kadmin.local"
)
"""Programs that change things on other machines, also when they run in a container."""
_IMAGES: Final = {
    "aws-cli": "aws",
    "terraform": "terraform",
    "opentofu": "tofu",
    "kubectl": "kubectl",
    "git": "git",
    "helm": "helm",
    "pulumi": "pulumi",
}
"""The program that an image runs, by the last part of the image's name."""
_OWN: Final = "fleethook"
"""Read in every container: with a shared server or volume it can switch off the hooks of this machine."""
_EXEC_VALUES: Final = names(
    "-c --container -n --namespace --context --kubeconfig --cluster --user -u -e --env --env-file -w --workdir --index"
    " --detach-keys -f --file -p --project-name --profile --project-directory -H --host --as --cwd --image --target -l"
    " --entrypoint --name -v --volume --pod-running-timeout -s --server --token -i -t"
) - names("-i -t")
_NOTHING: Final = Output()


def _run(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`docker run -v /:/host image rm -rf /host/etc`, with the paths as they are outside of the container."""
    if CONTAINERS_RUNNING.isdisjoint([arg.text for arg in args]):
        return
    if args[:1] == [Arg("unshare")]:
        yield Inner(argv=tuple(args[1:]))
        return
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
        if own and _name(own[0]) in _FAR | {_OWN}:
            yield Inner(argv=own)
        elif program := _IMAGES.get(_image(args[options.end].text) if options.end < len(args) else ""):
            yield Inner(argv=(Arg(program), *command))
        return
    if program := _IMAGES.get(_image(args[options.end].text)) if entry is None else None:
        yield Inner(argv=(Arg(program), *command))
        return
    workdir = options.value("-w", "--workdir")
    inner = tuple(Arg(_outside(arg.text, mounts), arg.sources) for arg in command)
    relative = any(source[:1] == "." and f"{source.rstrip('/')}/" in arg.text for source, _ in mounts for arg in inner)
    directory = _outside(workdir.text, mounts) if workdir is not None else "" if relative else _INSIDE
    yield Inner(argv=(entry, *inner) if entry is not None else inner, directory=directory)


def _mount(name: str, value: str) -> tuple[str, str] | None:
    """The source and the target of a mount; None without a target."""
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
    if CONTAINERS_RUNNING.isdisjoint([arg.text for arg in args]):
        return
    if Arg("cp") in args[:4] and len(args) > 2 and ":" not in args[-1].text:
        yield Inner(argv=(Arg("tee"), args[-1]))  # `docker cp c:/x FILE`
        return
    options = read_options(args, _EXEC_VALUES)
    place = options.end
    compose = False
    while place < len(args) and args[place].text in ("compose", "container", "task", "machine"):
        compose = args[place].text == "compose"
        place = read_options(args, _EXEC_VALUES, start=place + 1).end
    if place >= len(args):
        return
    verb = args[place].text
    if verb not in EXECS and not (verb == "debug" or (verb == "run" and compose)):
        return
    place = read_options(args, _EXEC_VALUES, start=place + 1).end + 1  # the container's name
    place = read_options(args, _EXEC_VALUES, start=place).end if place < len(args) else place
    yield from _kept(args[place:])


def _compose(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    yield from _exec([Arg("compose"), *args])


def _kept(command: Sequence[Arg]) -> Iterator[Inner]:
    """A command in a container that goes on running: what it deletes outside of caches and temporary places is data."""
    if command and (name := _name(command[0])) in _LOOKED_INTO:
        inner = tuple(Arg(_ABSOLUTE.sub(_marked, arg.text), arg.sources) for arg in command[1:])
        yield Inner(argv=(Arg(name), *inner), directory=_INSIDE)
    elif command and name in _FAR:
        yield Inner(argv=(Arg(name), *command[1:]), directory=_INSIDE)


def _image(text: str) -> str:
    """The last part of an image's name, without its tag: `hashicorp/terraform:1.9` is `terraform`."""
    return text.rpartition("/")[2].partition(":")[0].partition("@")[0]


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


_SHELL_MODULES: Final = names(
    "command shell raw script win_shell win_command win_powershell ansible.builtin.command"
    " ansible.builtin.shell ansible.builtin.raw ansible.windows.win_shell"
)
_TEXT: Final = lazy_regex(r'"((?:\\.|[^"\\])*)"')


def _hosts(values: str, operands: int = 0) -> Unwrap:
    """A reader for a program whose operands, behind the first `operands`, are a script for other machines."""
    known = names(values)

    def unwrap(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
        place = read_options(args, known).end
        for _ in range(operands):
            place = read_options(args, known, start=place + 1).end
        rest = args[place:]
        if rest[:1] and rest[0].text == "--":
            rest = rest[1:]
        if rest:
            yield script_of(rest, remote=True)

    return unwrap


def _ansible(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    given = {arg.text: args[place + 1] for place, arg in enumerate(args[:-1]) if arg.text.startswith("-")}
    module = given.get("-m") or given.get("--module-name")
    script = given.get("-a") or given.get("--args")
    if script is not None and (module is None or module.text in _SHELL_MODULES):
        yield script_of([script], remote=True)


def _aws(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`aws ssm send-command --parameters 'commands=["rm -rf /srv"]'`."""
    texts = [arg.text for arg in args]
    if "execute-command" in texts and "--command" in texts[:-1]:
        yield script_of(args[texts.index("--command") + 1 :][:1], remote=True)
    if "start-session" in texts:
        for arg in args:
            if arg.text.startswith("command="):
                yield Inner(script=arg.text[8:].strip("[]\"'"), sources=arg.sources, remote=True)
    if "send-command" not in texts:
        return
    for arg in args:
        if "commands" in arg.text:
            texts = _TEXT.findall(arg.text) or [arg.text.partition("=")[2].strip("[]")]
            for text in texts:
                if text != "commands":
                    yield Inner(script=text.replace('\\"', '"'), sources=arg.sources, remote=True)


def _salt(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`salt '*' cmd.run 'rm x'`."""
    for place, arg in enumerate(args[:-1]):
        if arg.text in ("cmd.run", "cmd.shell", "cmd.run_all", "cmd.script", "cmd.run_bg"):
            yield Inner(script=args[place + 1].text, sources=arg.sources, remote=True)
            return


def _az(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    texts = [arg.text for arg in args]
    if "run-command" in texts and "--scripts" in texts:
        for arg in args[texts.index("--scripts") + 1 :]:
            if arg.text.startswith("-"):
                break
            yield Inner(script=arg.text, sources=arg.sources, remote=True)


def _heroku(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    options = read_options(args, names("-a --app -s --size -r --remote"))
    if args[options.end : options.end + 1] and args[options.end].text in ("run", "run:inside", "run:detached"):
        rest = args[read_options(args, names("-a --app -s --size -r --remote -e --env"), start=options.end + 1).end :]
        if rest:
            yield script_of(rest, remote=True)


def _after(*verbs: str, skip: int = 0, values: str = "") -> Unwrap:
    """A reader for a program whose subcommands `verbs` are followed by `skip` operands and a script for another machine."""
    known = names(values)

    def unwrap(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
        texts = [arg.text for arg in args]
        start = next((n for n in range(len(texts)) if tuple(texts[n : n + len(verbs)]) == verbs), None)
        if start is None:
            return
        place = read_options(args, known, start=start + len(verbs)).end
        for _ in range(skip):
            place = read_options(args, known, start=place + 1).end
        if place < len(args):
            script = script_of(args[place:], remote=True)
            yield script._replace(script=_DEVICE.sub(_INSIDE, script.script or ""))

    return unwrap


_DEVICE: Final = lazy_regex(r"/data/local/tmp(?=[/\s'\"]|$)")
"""Android's folder for temporary files."""


def _remote_option(*options: str) -> Unwrap:
    """A reader for a program that takes a script for another machine as the value of one of these options."""

    def unwrap(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
        for place, arg in enumerate(args):
            name, equals, value = arg.text.partition("=")
            if name in options and (equals or place + 1 < len(args)):
                script = arg._replace(text=value) if equals else args[place + 1]
                yield script_of([script], remote=True)

    return unwrap


def _fly(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    texts = [arg.text for arg in args]
    for place, text in enumerate(texts[:-1]):
        if text in ("-C", "--command") and "ssh" in texts:
            yield Inner(script=texts[place + 1], sources=args[place + 1].sources, remote=True)
    if texts[:2] in (["machine", "exec"], ["machines", "exec"], ["m", "exec"]) and len(args) > 3:
        yield script_of(args[3:], remote=True)


HOSTS: Final[dict[str, Unwrap]] = {
    "pssh": _hosts("-H -h -l -p -o -e -t -O --host --hosts --user --par --outdir --errdir --timeout"),
    "parallel-ssh": _hosts("-H -h -l -p -o -e -t -O --host --hosts --user --par --outdir --errdir --timeout"),
    "pdsh": _hosts("-w -x -l -f -u -t -g -R"),
    "clush": _hosts("-w -x -g -l -f -u -t -X -o"),
    "dsh": _hosts("-m -g -f -o -r --machine --group --file"),
    "mosh": _hosts("--ssh --server --client --predict -p --port", 1),
    "autossh": _hosts("-M -b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B", 1),
    "fab": _hosts("-H -i -u --hosts --identity"),
    "ansible": _ansible,
    "aws": _aws,
    "az": _az,
    "heroku": _heroku,
    "fly": _fly,
    "flyctl": _fly,
    "eb": _remote_option("-c", "--command"),
    **dict.fromkeys(["salt", "salt-call"], _salt),
    "salt-ssh": _remote_option("-r", "--raw-shell"),
    "et": _remote_option("-c", "--command"),
    "knife": _after("ssh", skip=1, values="-x -i -a -C -p -P --ssh-user --identity-file --attribute"),
    "bolt": _after("command", "run"),
    "mco": _after("shell", "run"),
    "pyinfra": _after("exec"),
    "nomad": _after("alloc", "exec", skip=1, values="-task -job"),
    "consul": _after("exec", values="-node -service -tag -wait -prefix"),
    "tsh": _after("ssh", skip=1, values="-p -l -L -i --port --login --proxy --cluster"),
    "minikube": _after("ssh", values="-n --node -p --profile"),
    "adb": _after("shell", values="-s -x -T -t -e"),
    **dict.fromkeys(["plink", "dbclient", "rsh", "remsh"], _hosts("-l -i -p -P -pw -batch -m", 1)),
    "lima": _hosts(""),
}
"""By program."""


def _powershell(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """`powershell -NoProfile -Command …` and `-EncodedCommand …`, from any shell."""
    place = 0
    while place < len(args):
        name = args[place].text.lower().lstrip("-/")
        if not args[place].text.startswith(("-", "/")):
            break
        place += 1
        if name and "encodedcommand".startswith(name) and name[0] == "e" and name not in ("ex", "ep"):
            for arg in args[place : place + 1]:
                yield from powershell_calls(_decoded(arg.text))
            return
        if name and "command".startswith(name):
            break
        if name and "file".startswith(name):
            yield Inner(sources=tuple(source for arg in args[place:] for source in arg.sources))
            return
        if name in (
            "executionpolicy",
            "ep",
            "ex",
            "windowstyle",
            "w",
            "version",
            "workingdirectory",
            "inputformat",
            "outputformat",
        ):
            place += 1
    rest = args[place:]
    if rest and rest[0].text != "-":
        yield Inner(sources=tuple(source for arg in rest for source in arg.sources))
        yield from powershell_calls(" ".join(arg.text for arg in rest))
    else:
        yield Inner(sources=stdin.programs)
        yield from powershell_calls(stdin.text or "")


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4)).decode("utf-16-le", "replace")
    except (ValueError, binascii.Error):
        return ""


def _cmd(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`cmd /c …`."""
    for place, arg in enumerate(args):
        if arg.text.lower().lstrip("/-") in ("c", "k"):
            text = " ".join(one.text for one in args[place + 1 :])
            yield from powershell_calls(re.sub(r"(?<!&)&(?!&)", ";", text.replace("^", "")))
            return


POWERSHELL: Final[dict[str, Unwrap]] = {"powershell": _powershell, "pwsh": _powershell, "cmd": _cmd}
"""By program."""
