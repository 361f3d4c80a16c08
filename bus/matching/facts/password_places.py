"""Places in texts where a program, an address or a call takes a password and nothing else."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from bus.lazy.regex import lazy_regex


class PasswordPlace(NamedTuple):
    """The pattern, with the groups `name` and `bare`, is tried where the lower-cased text has `beginning`, at `most` places."""

    beginning: str
    pattern: re.Pattern[str]
    most: int


_AUTHORIZATION: Final = lazy_regex(r"(?i)(?P<name>bearer|basic)[ ](?P<bare>[A-Za-z0-9._~+/=-]{16,512})")
_DOCKER: Final = lazy_regex(r"(?P<name>\"auth)\"[ ]?:[ ]?\"(?P<bare>[A-Za-z0-9+/=]{16,512})\"")
"""As in Docker's `config.json`."""
_URL: Final = lazy_regex(r"://(?P<name>[^\s/:@\"']{0,64}):(?P<bare>[^\s/@\"']{8,256})@")
_LOGIN: Final = lazy_regex(
    r"curl\b[^\n|;&]{0,512}?\s(?:-u|--user)[ =]?[\"']?(?P<name>[\w.@-]{1,64}):(?P<bare>[^\s\"']{8,256})"
)
_MYSQL: Final = lazy_regex(r"(?P<name>mysql|mariadb)\w*\b[^\n|;&]{0,512}?\s-p[\"']?(?P<bare>[^\s\"']{8,256})")
_LOGIN_COMMAND: Final = lazy_regex(r"(?P<name>login)[ ][^\n|;&]{0,512}?(?<=\s)-p[ =]?[\"']?(?P<bare>[^\s\"']{8,256})")
"""As in `docker login -u me -p x`."""
_PASS: Final = lazy_regex(r"(?P<name>sshpass)[ ][^\n|;&]{0,64}?-p[ ]?[\"']?(?P<bare>[^\s\"']{8,256})")
_REDIS: Final = lazy_regex(r"(?P<name>redis-cli)\b[^\n|;&]{0,512}?\s(?:-a|--pass)[ =][\"']?(?P<bare>[^\s\"']{8,256})")
_STDIN: Final = lazy_regex(
    r"(?:echo|printf)[ ]+(?:-n[ ]+|%s[ ]+)?[\"']?(?P<bare>[^\s\"'|;&]{8,256})[\"']?[ ]*\|[^|;&\n]{0,256}"
    r"(?P<name>\bsudo[ ](?:-\S+[ ])*-[A-Za-z]*S\b"
    r"|--password-stdin|--token-stdin|--with-token|-pass[ ]stdin|\bchpasswd\b|--stdin)"
)
"""As in `echo x | docker login --password-stdin`."""
_VALUE_OPTION: Final = lazy_regex(
    r"(?P<name>openssl|wg|vault|gpg|7z|zip|keytool|az|ssh-keygen|useradd|usermod|ldapsearch|mosquitto_\w+)\b[^\n|;&]{0,512}?\s"
    r"(?:-k|-N|-w|-pass(?:in|out)?[ ]pass:|login|--passphrase|-P|-p|-storepass"
    r"|(?:preshared|private)-key[ ]<\((?:echo|printf)(?:[ ]-n|[ ]%s)?)[ ]?[\"']?(?P<bare>[^\s\"')]{8,256})"
)
"""Programs whose option has a password: `openssl enc -k x`, `wg set … preshared-key <(echo x)`."""
_HTTPIE: Final = lazy_regex(
    r"(?P<name>https?|xh|curlie)[ ][^\n|;&]{0,256}?(?<=\s)(?:-a|--auth)[ =][\"']?[\w.@-]{1,64}:(?P<bare>[^\s\"']{8,256})"
)
_HTPASSWD: Final = lazy_regex(r"(?P<name>htpasswd)[ ]-\w*b\w*[ ]\S{1,200}[ ]\S{1,64}[ ][\"']?(?P<bare>[^\s\"']{8,256})")
_HERE: Final = lazy_regex(r"(?P<name>secret|env add)\b[^\n|;&<]{0,64}<<<[ ]?[\"']?(?P<bare>[^\s\"']{8,256})")
_AUTH_PAIR: Final = lazy_regex(
    r"(?P<name>auth[ ]?=[ ]?\w{0,30}|\.login|basicauth)\([ ]?[\"'][^\"'\n]{0,100}[\"'],[ ]?[\"'](?P<bare>[^\"'\n]{8,256})[\"']"
)
"""As in `auth=("me", "x")` and `smtp.login("me", "x")`."""
_SIGNED: Final = lazy_regex(
    r"(?P<name>jwt)\.(?:sign|verify|encode|decode)\([^,\n]{1,100},\s?[\"'](?P<bare>[^\"'\n]{12,256})[\"']"
)
DATA_SOURCE: Final = lazy_regex(r"(?P<name>[\w.-]{1,64}):(?P<bare>[^\s/@\"':]{8,64})@")
"""As in `user:x@tcp(db:3306)`."""

_PGPASS: Final = lazy_regex(
    r"(?P<name>:(?:5432|3306|6543|\*)):[\w.*-]{1,64}:[\w.*-]{1,64}:(?P<bare>\S{8,256})(?:\s|\Z)"
)
"""As in `.pgpass`."""

_MOST_NAMES: Final = 2000
_MOST_COMMANDS: Final = 32
"""So many places of one program are looked at in a text; this bounds the time for any text."""
PASSWORD_PLACES: Final = (
    PasswordPlace("://", _URL, _MOST_NAMES),
    *(
        PasswordPlace(beginning, pattern, _MOST_COMMANDS)
        for beginning, pattern in (
            ("bearer ", _AUTHORIZATION),
            ("basic ", _AUTHORIZATION),
            ('"auth"', _DOCKER),
            ("curl", _LOGIN),
            ("mysql", _MYSQL),
            ("mariadb", _MYSQL),
            ("login ", _LOGIN_COMMAND),
            ("sshpass", _PASS),
            ("redis-cli", _REDIS),
            ("echo ", _STDIN),
            ("printf ", _STDIN),
            *((f"{name} ", _HTTPIE) for name in ("http", "https", "xh", "curlie")),
            ("htpasswd ", _HTPASSWD),
            ("secret ", _HERE),
            ("env add", _HERE),
            ("auth", _AUTH_PAIR),
            (".login(", _AUTH_PAIR),
            ("basicauth(", _AUTH_PAIR),
            ("jwt.", _SIGNED),
            *((port, _PGPASS) for port in (":5432:", ":3306:", ":6543:", ":*:")),
            *(
                (name, _VALUE_OPTION)
                for name in ("openssl ", "wg set", "vault login", "gpg ", "7z ", "zip ", "keytool ", "az login")
            ),
            *((name, _VALUE_OPTION) for name in ("ssh-keygen ", "useradd ", "usermod ", "ldapsearch ", "mosquitto_")),
        )
    ),
)
ANY_PLACE: Final = (
    r"://[^\s/:@]{0,64}:|:(?:5432|3306|6543|\*):"
    r"|@tcp\(|mysql|mariadb|\bcurl\b|\blogin\b|sshpass|redis-cli|\bbearer |\bbasic |\"auth\""
    r"|password-stdin|token-stdin|with-token|chpasswd|--stdin|\bsudo |<<<|\bauth ?= ?\w{0,30}\(|basicauth\(|\bjwt\."
    r"|\bopenssl\b|\bwg set\b|--passphrase|\b7z\b|\bzip -|storepass|htpasswd|ssh-keygen|\buser(?:add|mod)\b|ldapsearch"
    r"|mosquitto_|\b(?:https?|xh|curlie) .*(?:-a|--auth)[ =]"
)
"""A text with a password in such a place has this."""
