"""The headers of one webhook request, of a blocking hook or a delivery: the configured ones, ours and the signature."""

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
    defaults: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The headers of a request at `now` (unix seconds), with a signature if the sender has a secret.

    A configured header replaces one of `defaults` with the same name, and never one of `ours`.

    A signed request always has the message's id and time, an unsigned one only if `with_id` is set. Raises ConfigError if a
    `${VAR}` or secret does not exist, and MissingKey if this machine does not have the key of a sealed secret.
    """
    written = fill(sender.headers) if sender.headers else {}
    if defaults:
        names = {name.lower() for name in written}
        written = {name: value for name, value in defaults.items() if name.lower() not in names} | written
    ours = dict(ours)
    if sender.secret:
        ours |= signed_headers(signing_secrets(sender, now), message_id, now, body)
    elif with_id:
        ours |= {"webhook-id": message_id, "webhook-timestamp": str(now)}
    if not written:
        return ours
    # Header names ignore case. A configured header with the name of ours would be sent twice, and receivers differ then.
    names = {name.lower() for name in ours}
    return {name: value for name, value in written.items() if name.lower() not in names} | ours


def signing_secrets(sender: Endpoint | HttpCall, now: float) -> list[str]:
    """Every secret that signs at `now`: the present secret, and old ones that are still valid.

    Raises ConfigError if the present secret does not exist. An old secret that is already gone is left out.
    """
    secrets = [recent_secret(sender.secret)]
    for old in sender.old_secrets:
        if old.until.timestamp() > now:
            with contextlib.suppress(ConfigError):
                secrets.append(recent_secret(old.secret))
    return secrets
