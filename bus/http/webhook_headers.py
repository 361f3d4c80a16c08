"""The headers of one webhook request, for a blocking hook as for a delivery: its author's, ours and the signature."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from bus.errors import ConfigError
from bus.hooks import Endpoint, HttpCall
from bus.http.signing import headers as signed_headers
from bus.secrets.references import fill, recent_secret


def webhook_headers(
    sender: Endpoint | HttpCall,
    message_id: str,
    now: int,
    body: bytes,
    ours: Mapping[str, str],
    *,
    with_id: bool = True,
) -> dict[str, str]:
    """The headers of a request at `now` (unix seconds), with a signature where the sender has a secret.

    A signed request always carries the message's id and time, an unsigned one where `with_id` is set. ConfigError where a
    `${VAR}` or secret does not exist, MissingKey where this machine lacks the key of a sealed one.
    """
    written = fill(sender.headers) if sender.headers else {}
    ours = dict(ours)
    if sender.secret:
        ours |= signed_headers(signing_secrets(sender, now), message_id, now, body)
    elif with_id:
        ours |= {"webhook-id": message_id, "webhook-timestamp": str(now)}
    if not written:
        return ours
    # HTTP ignores case: a written header beside ours of the same name would be two, and receivers differ on which counts.
    names = {name.lower() for name in ours}
    return {name: value for name, value in written.items() if name.lower() not in names} | ours


def signing_secrets(sender: Endpoint | HttpCall, now: float) -> list[str]:
    """Every secret that signs at `now`: the sender's own, and those that it replaced and that are still valid.

    ConfigError where its own does not exist. An old one that is gone already is left out: the new one is enough.
    """
    secrets = [recent_secret(sender.secret)]
    for old in sender.old_secrets:
        if old.until.timestamp() > now:
            with contextlib.suppress(ConfigError):
                secrets.append(recent_secret(old.secret))
    return secrets
