"""Finds keys, tokens and passwords in a text: by a known format, or as a value beside a telling name that looks random.

Placeholders (`sk-your-key-here`), examples of manuals (`AKIAIOSFODNN7EXAMPLE`) and references (`${TOKEN}`) are none. What is
found is described without its value, so that no reason carries it on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from bus.lazy.regex import lazy_regex
from bus.matching.facts.command_secrets import IN_COMMANDS, places_in_commands
from bus.matching.facts.kinds import SecretClass
from bus.matching.facts.password_places import ANY_PLACE, DATA_SOURCE, PASSWORD_PLACES
from bus.matching.facts.random_values import (
    LEAST_BITS,
    LEAST_LENGTH,
    UUID,
    bits,
    is_ordered,
    is_placeholder,
    looks_random,
)
from bus.matching.facts.token_formats import OTHER_PRIVATE_KEYS, PRIVATE_KEY, TOKEN_FORMATS, WEBHOOK_URL
from bus.matching.regexes import compile_regex


class Secret(NamedTuple):
    """A secret in a text, without its value."""

    of: SecretClass
    what: str
    """Its kind, or the name beside it."""


_FORMATS: Final = (PRIVATE_KEY, *OTHER_PRIVATE_KEYS, WEBHOOK_URL, *TOKEN_FORMATS)
_ANY_FORMAT: Final = "|".join(sorted({one.gate for one in _FORMATS}))

_KEYS: Final = (
    "api access auth account private signing encryption service storage master app jwt hmac session client subscription"
    " webhook deploy server license shared consumer admin secret rsa"
)
_NAMES: Final = (
    *(
        "password",
        "passwd",
        "passphrase",
        "secret",
        "token",
        "credential",
        "pwd",
        "pass",
        "identified",
        "securestring",
        "_key",
        "_auth",
        "_pat",
        "fernet",
    ),
    *("connectionstring", "connection_string"),
    *(f"{kind}{sign}key" for kind in _KEYS.split() for sign in ("", "_", "-")),
)
"""A name that contains one of these, in any case, says that its value is a secret."""
_ANY_NAME: Final = (
    "passw|passphrase|secret|token|credential|pwd|_pass|_auth|_pat\\b|fernet"
    "|(?:^|[^a-z])key['\"]?[ ]?[:=(]|\\bpass[\"']{0,2}[ ]?[:=,]|identified by|connection_?string"
    f"|(?:{_KEYS.replace(' ', '|')})[_-]?key|_key[\"' ]{{0,2}}[:=]|{ANY_PLACE}"
)
_ANY: Final = f"(?i){_ANY_FORMAT}|{_ANY_NAME}|{IN_COMMANDS}"
"""A text without a match has no secret. Most texts are looked at only once, for this, and RE2 takes a microsecond."""

_TELLING: Final = lazy_regex(r"[0-9A-Z!^*#~]")
"""A text without one of these has no value that looks random. Half of the command lines have none; to look takes 0.3 µs."""

_CALL: Final = r"""(?:[A-Za-z_\[\]][\w.\[\]]{0,40}\([ ]?(?:["'][\w.-]{1,64}["'],[ ]?)?)?[bruf]{0,2}"""
_VALUE: Final = rf"""(?:{_CALL}"(?P<double>[^"\\\n]{{12,512}})"|{_CALL}'(?P<single>[^'\\\n]{{12,512}})'
    |\\{{0,4}}["'`]?(?P<bare>[^\s"'`,;(){{}}<>\[\]\\]{{12,512}}))"""
_NAMED: Final = lazy_regex(
    rf"""(?x) (?P<name>[\w.-]{{3,64}}+) \\{{0,4}}["']?\]?
        (?P<sign>[ \t]{{0,4}}(?::[ ]?[&'\w<>\[\]|.]{{1,40}}[ ]=[ ]|=>|:=|=|:(?!:))[ \t]{{0,4}}
        |[ ](?i:is|to|as|by)[ ]|,[ \t]{{0,4}}(?=["'])|\([ ]?(?=["'])|>|[ ]?<<<[ ]?|["',\s]{{1,40}}value["']?[ ]?[:=][ \t]{{0,4}}
        |["']?[ ]?\{{[^{{}}]{{0,200}}?\bdefault[ ]{{0,8}}=[ ]?|:[ ]?[|>][+-]?\n[ ]{{1,16}}
        |[ ](?:--body|--value|-b)[ =]|[ ]{{1,2}}) {_VALUE}"""
)
"""A name from the place where it says that it is secret, and its value. After a blank, the value is one of an option.

The value may be in a call: `SecretStr("x")`, `getenv("NAME", "x")`."""
_OPTION: Final = lazy_regex(r"(?:(?:(?<=\s)|\A)--?[\w-]{0,32}|\b(?:login|user)\s+\S{1,64}\s+)\Z")
"""What is before a name whose value follows after a blank: the beginning of an option, or a login in `.netrc`."""
_BEFORE: Final = 80
_LEAST_OF_PASSWORDS: Final = 12
"""The least length beside a name such as `password`."""
_LEAST_OF_LOGINS: Final = 8
"""The least length where a program or an address takes a password and nothing else."""
_MOST_NAMES: Final = 2000
"""So many places of one name are looked at in a text; this bounds the time for any text."""

_NO_SECRET_NAME: Final = lazy_regex(
    r"(?i)(?:hash|digest|checksum|_?id|name|ur[li]|path|file|type|field|label|length|count|endpoint|placeholder|policy"
    r"|regex|pattern|alg|algorithm|expires?|expiry|arn|ref|version|izer\w*)$"
)
_REFERENCE: Final = lazy_regex(r"\$\w+|%\w+%|\$\{.*|\$\(.*|`.*|@\S+|<.*")
"""A variable, a substitution or a file in the place of a value."""
_TAKES_UUID: Final = lazy_regex(
    r"(?i)(?:api_?key|api_?token|secret|(?:access|auth|snyk|heroku|bot|private)_?(?:token|key))$"
)
"""Names whose value may be a UUID. Many tokens of requests and tests are UUIDs and no secrets."""
_BARE_KEY: Final = lazy_regex(
    r"""(?ix) (?<![\w$@.-]) key["']?[ ]?(?:[:=(]|:=|=>|is)[ ]?(?:[a-z_][\w.]{0,40}\([ ]?)?[bruf]?["']?(?:0x)?
        (?P<value>[a-z0-9+/_-]{32,128}={0,2})(?![\w.(/-])"""
)
_LEAST_OF_BARE_KEYS: Final = 32
_BARE_LENGTHS: Final = frozenset({32, 40, 43, 44, 48, 64, 86, 88, 96, 128})
"""The lengths of 16 to 64 bytes in hexadecimal digits and in Base64."""
_LEAST_BITS_OF_ADDRESSES: Final = 2.2
"""The least entropy of the last part of an address that anybody may post to; some have only seven characters."""
_BODY: Final = lazy_regex(r"[A-Za-z0-9+/]{40,}")


def secrets_in(text: str) -> tuple[Secret, ...]:
    """The secrets in a text, at most one of each class."""
    return () if _TELLING.search(text) is None else _secrets_in(text)


@lru_cache(maxsize=16)
def _secrets_in(text: str) -> tuple[Secret, ...]:
    if compile_regex(_ANY, own=True).search(text) is None:
        return ()  # as most texts
    known = next(_known(text), None)
    random = next(_random(text), None)
    return tuple(found for found in (known, random) if found is not None)


def _known(text: str) -> Iterator[Secret]:
    lowered = text.lower()
    for token in _FORMATS:
        if any(needle in lowered for needle in token.needles):
            for match in token.pattern.finditer(text):
                if _is_real(token.kind, match[0]):
                    yield Secret("known", token.kind)


def _is_real(kind: str, value: str) -> bool:
    """Whether a text of a known format is a key and not a placeholder for one."""
    if kind == "private-key" and value.startswith(("-----", "PuTTY")):
        bodies = _BODY.findall(value, value.find("Private-Lines") + 1)
        return any(map(_is_body, bodies))
    if kind == "jwt":
        return value.count(".") >= 2 and all(map(looks_random, value.split(".")[1:3]))
    if kind == "aws-key":
        return not is_placeholder(value) and not is_ordered(value) and bits(value[4:]) >= LEAST_BITS
    if kind == "webhook-url":
        return not is_placeholder(value) and bits(re.split("[/=]", value)[-1]) >= _LEAST_BITS_OF_ADDRESSES
    parts = re.split(r"[_:.-]", value.lstrip("A"))
    return looks_random(max(parts, key=len), 10) or looks_random("".join(parts[1:]))


def _is_body(text: str) -> bool:
    """Whether a text in Base64 is a part of a real key. The beginning of many keys has `AAAA` in it."""
    return looks_random(re.sub("A{4,}", "", text))


def _random(text: str) -> Iterator[Secret]:
    lowered = text.lower()
    for name in _NAMES:
        if name not in lowered:
            continue
        end = 0
        for at in _places(lowered, name, _MOST_NAMES):
            match = _NAMED.match(text, at) if at >= end else None  # a name in a value that was judged is no name
            end = max(end, match.end() if match is not None else 0)
            if match is not None and (match["sign"].strip() or _takes_blank(text, at, match)):
                if name == "_key" and (not match["name"].isupper() or match["sign"].strip() not in ("=", ":", ":=")):
                    continue  # `cache_key` and its like have values that look random and are no secrets
                yield from _judged(match, _LEAST_OF_PASSWORDS if name[:4] in ("pass", "pwd") else LEAST_LENGTH)
    yield from _bare_keys(text)
    yield from _in_commands(text, lowered)
    for place in PASSWORD_PLACES:
        if place.beginning not in lowered:
            continue
        for at in _places(lowered, place.beginning, place.most):
            if (match := place.pattern.match(text, at)) is not None:
                yield from _judged(match, _LEAST_OF_LOGINS)
    for at in _places(lowered, "@tcp(", _MOST_NAMES):
        if (match := DATA_SOURCE.search(text, max(0, at - _BEFORE), at + 1)) is not None:
            yield from _judged(match, _LEAST_OF_LOGINS)


def _bare_keys(text: str) -> Iterator[Secret]:
    """Long values beside the bare name `key`, without the signs of a path, a sentence or an identifier."""
    for match in _BARE_KEY.finditer(text):
        value = match["value"]
        if looks_random(value, _LEAST_OF_BARE_KEYS) and len(value) in _BARE_LENGTHS:
            yield Secret("random", "the value of key")


def _in_commands(text: str, lowered: str) -> Iterator[Secret]:
    """Values of the options and operands by which programs take passwords."""
    if compile_regex(IN_COMMANDS, own=True).search(lowered) is None:
        return
    for begin, end in places_in_commands(text, _is_reference, _is_secret_name):
        if looks_random(text[begin:end].strip("\"'"), _LEAST_OF_LOGINS):
            yield Secret("random", "a password")


def _is_reference(value: str) -> bool:
    return _REFERENCE.fullmatch(value) is not None


def _is_secret_name(name: str) -> bool:
    lowered = name.lower()
    return any(one in lowered for one in _NAMES) and not _NO_SECRET_NAME.search(name)


def _places(text: str, word: str, most: int) -> Iterator[int]:
    at = text.find(word)
    while at >= 0 and most:
        yield at
        at, most = text.find(word, at + len(word)), most - 1


def _takes_blank(text: str, at: int, match: re.Match[str]) -> bool:
    """Whether a blank separates a name at this place from its value: `--password x`, `PASSWORD 'x'`."""
    return (
        (match["single"] or match["double"]) is not None
        or match["name"].lower() in ("password", "passphrase", "passwd")
        or (match["name"].lower() in ("token", "key", "secret") and len(match["bare"] or "") >= _LEAST_OF_BARE_KEYS)
        or match["name"].lower() == "secret_access_key"
        or _OPTION.search(text[max(0, at - _BEFORE) : at]) is not None
    )


def _judged(match: re.Match[str], least: int) -> Iterator[Secret]:
    groups = match.groupdict()
    value = groups.get("double") or groups.get("single") or groups["bare"] or ""
    name = match["name"].strip('-_."')
    if _REFERENCE.fullmatch(value):
        return
    if UUID.fullmatch(value) and _TAKES_UUID.search(match.string[max(0, match.start() - _BEFORE) : match.end("name")]):
        yield Secret("random", f"the value of {name}")
    if not _NO_SECRET_NAME.search(name) and "://" not in value and looks_random(value, least):
        yield Secret("random", f"the value of {name}" if name else "a password")
