"""Whether the hooks that ask a model can: is one configured, is its key set here, and may its address be reached."""

from __future__ import annotations

import msgspec

from bus.errors import TargetRefused
from bus.hooksets.in_force import HookSet
from bus.http.address_policy import parse_target, vet
from bus.judge.chat import check_key
from bus.runners.model import NO_MODEL
from bus.secrets.redaction import redact_url


class ModelHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The model and the hooks that ask it."""

    hooks: tuple[str, ...]
    """The ids of the hooks in force that ask a model."""
    name: str = ""
    """The configured model; empty if there is none."""
    url: str = ""
    trouble: str = ""
    """Why no hook can ask it from this machine; empty if nothing is known to be wrong."""

    @property
    def text(self) -> str:
        """The model and its endpoint, or what is wrong."""
        return f"{self.trouble}; each hook's failure policy answers" if self.trouble else f"{self.name} at {self.url}"


def model_health(hooks: HookSet) -> ModelHealth | None:
    """The state of the model of a hook set as far as it can be seen without a request; None if no hook asks one."""
    asking = tuple(hook.id for hook in hooks.hooks.values() if hook.kind in {"prompt", "agent"})
    server = hooks.model
    if not asking:
        return None
    if server is None:
        return ModelHealth(hooks=asking, trouble=NO_MODEL)
    trouble = check_key(server)
    if not trouble:
        try:
            target = parse_target(server.url)
            address = str(target.literal or ("127.0.0.1" if target.host == "localhost" else ""))
            if address:  # other names are resolved when they are asked
                vet(target, [address], hooks.network)
        except TargetRefused as error:
            trouble = f"the model's address is refused ({error.reason}): allow it in `network.allow`"
    return ModelHealth(hooks=asking, name=server.name, url=redact_url(server.url), trouble=trouble)
