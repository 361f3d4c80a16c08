"""Whether an agent's hooks of type `http` reach their gateway, with a token that may publish."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bus.installs import find
from bus.installs.http_hooks import TOKEN
from workers.admin.agent_setup import Installed, where_is
from workers.admin.doctor import INSTALL, Check, State
from workers.admin.http_installs import post, token_of

_SECONDS: Final = 2.0
_START: Final = "start the gateway there (`fleethook up`)"
_MAKE: Final = f"`fleethook tokens create NAME`, then set {TOKEN} in the environment that starts the agent"


def http_checks(install: Installed, cwd: Path) -> Iterator[Check]:
    """Check the gateway and the token of one file's hooks of type `http`; nothing if it has none."""
    if install.http is None:
        return
    agent, base, where = install.agent, install.http.base, where_is(project=cwd)
    program = find(agent)
    for trouble in program.http_troubles(where, install.http, list(install.urls.values())):
        state: State = "fail" if trouble.sure else "warn"
        yield Check(id=f"{agent}-http", status=state, what=trouble.what, fix=trouble.fix, agent=agent)
    token = token_of(program, where)
    intro = f"{agent}: its hooks of type http post to the gateway at {base}"
    # No entries: the call only shows whether the token may publish.
    answer = post(f"{base}/v1/entries", b"", token, {"Content-Type": "application/octet-stream"}, _SECONDS)
    name = f"{agent}-gateway"
    if not answer.status:
        text = f"{intro}, which cannot be reached: {answer.text}. Every call goes on meanwhile"
        if install.closed and not _fails_open(install):
            text = f"{intro}, which cannot be reached: {answer.text}. It blocks every call meanwhile"
        fix = f"{_START}, or `{INSTALL} {agent}` for command hooks"
        yield Check(id=name, status="fail", what=text, fix=fix, agent=agent)
    elif not token:
        text = f"{intro}; {TOKEN} is not set here: an agent that is started like this is refused"
        yield Check(id=name, status="fail", what=text, fix=_MAKE, agent=agent)
    elif answer.status != 202:
        text = f"{intro}, which refuses {TOKEN}: {_detail(answer.text)}"
        yield Check(id=name, status="fail", what=text, fix=_MAKE, agent=agent)
    else:
        text = f"{intro}, which answers and takes its token"
        yield Check(id=name, status="ok", what=text, agent=agent, brief=f"http to {base}")


def _fails_open(install: Installed) -> bool:
    form = find(install.agent).http
    return form is None or not form.failure


def _detail(text: str) -> str:
    """The detail of a problem."""
    try:
        return str(json.loads(text)["detail"])
    except (ValueError, KeyError, TypeError):
        return text[:200]
