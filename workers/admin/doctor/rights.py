"""Checks that the credentials of an agent's hook commands have the rights that they need, and no others."""

from __future__ import annotations

from bus.errors import ConfigError, FleethookError, Unreachable
from bus.ids import reply_token
from bus.shim.answer_file import AnswerFile, RedisServer, read_answer_file, server_from_url
from bus.system.directories import Directories
from bus.wire.connections import START_HINT, Connections
from workers.admin.agent_setup import SHIM_URL, url_of
from workers.admin.doctor import INSTALL, Check
from workers.admin.doctor.gateway import gateway_rights_check


async def rights_checks(agent: str, places: Directories, away: str = "") -> list[Check]:
    """Check that the credentials of the agent's hook commands allow asking, and nothing else.

    `away` is the URL of a server that is known to be unreachable; then the check is unknown, and not a second failure.
    """
    path, name = places.answer_file(agent), f"{agent}-rights"
    try:
        answers = read_answer_file(path)
    except ConfigError:
        return []  # another check reports it
    if answers.server.gateway:
        return [gateway_rights_check(agent, path)]
    connections = Connections(url_of(answers.server), connect=1.0)
    try:
        missing, wide = await _tried(connections, answers)
    except (Unreachable, FleethookError) as error:
        if away and isinstance(error, Unreachable) and _is_at(answers.server, away):
            text = f"{agent}: the rights of its hook commands cannot be seen"
            return [Check(id=name, status="unknown", what=text, agent=agent, cause="server")]
        text = f"{agent}: its hook commands: {str(error).removesuffix(START_HINT)}"
        fix = f"`fleethook up`, then `{INSTALL} {agent}`"
        return [Check(id=name, status="fail", what=text, fix=fix, agent=agent)]
    finally:
        await connections.close()
    if missing:
        text = f"{agent}: its hook commands may not {', '.join(missing)}"
        return [
            Check(
                id=name,
                status="fail",
                what=text,
                fix="give their user the rights that `fleethook acl` prints",
                agent=agent,
            )
        ]
    if wide:
        text = f"{agent}: its hook commands may also {', '.join(wide)}"
        fix = f"{SHIM_URL}=... of the role shim (`fleethook acl`), then `{INSTALL} {agent}`"
        return [Check(id=name, status="warn", what=text, fix=fix, agent=agent)]
    text = f"{agent}: its hook commands may ask and report, and nothing else"
    return [Check(id=name, status="ok", what=text, agent=agent)]


def _is_at(server: RedisServer, url: str) -> bool:
    """Whether the URL names this server, with any credentials."""
    try:
        other = server_from_url(url)
    except FleethookError:
        return False
    return (server.kind, server.address, server.port) == (other.kind, other.address, other.port)


async def _tried(connections: Connections, answers: AnswerFile) -> tuple[list[str], list[str]]:
    """The needed rights that the credentials lack, and the rights that they have and do not need; nothing is changed.

    XADD has an invalid id, so it fails after the server has checked the rights.
    """
    at, reply = answers.prefix, f"{answers.prefix}reply:{reply_token()}"
    needed = (
        ("add requests", ("XADD", f"{at}requests", "NOMKSTREAM", "no-id", "a", "b")),
        ("add events", ("XADD", f"{at}events", "NOMKSTREAM", "no-id", "a", "b")),
        ("read answers", ("BLMOVE", reply, reply, "LEFT", "LEFT", 0.01)),
        ("read answers of a full server", ("BLPOP", reply, 0.01)),
        ("see evaluators", ("EXISTS", f"{at}alive:evaluator")),
    )
    needless = (
        ("run scripts", ("EVAL", "return 1", 1, f"{at}events")),
        ("read hook sets", ("GET", f"{at}hookset:current")),
        ("read events", ("XLEN", f"{at}events")),
        ("read counters", ("HGETALL", f"{at}stats")),
    )
    with connections.lease() as connection:
        replies = await connection.exchange([command for _, command in (*needed, *needless)])
    refused = [isinstance(one, Exception) and "permission" in f"{type(one).__name__} {one}".lower() for one in replies]
    missing = [what for (what, _), no in zip(needed, refused, strict=False) if no]
    wide = [what for (what, _), no in zip(needless, refused[len(needed) :], strict=True) if not no]
    return missing, wide
