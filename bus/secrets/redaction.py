"""Replaces the secrets in everything that is read, logged, traced, sent or archived.

A secret is recognised by its own form (a token's prefix, a PEM block, a JWT), which the replacement names, or by the text
beside it (a key, a variable, a flag, a header). In doubt it is replaced: a trace that hides too much costs a look at the
source, and one that hides too little costs a rotation. Hashes, UUIDs and paths stay.

Cost is bounded: a pattern backtracks over a constant number of characters at most, and runs only where one of its needles
occurs. Text beyond TEXT_LIMIT is not scanned, and so not shown.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

import msgspec

from bus.events import Event
from bus.lazy.regex import lazy_regex
from bus.matching.facts.command_secrets import hidden_words, hide_in_commands, is_program
from bus.matching.facts.token_formats import PRIVATE_KEY, TOKEN_FORMATS, WEBHOOK_URL
from bus.matching.regexes import LiteralSearch, compile_regex
from bus.secrets.replacements import REDACTED, count_replacements, hide

TEXT_LIMIT = 64 * 1024  # characters of one string that are scanned
_OVERLAP = 4096  # scanned but not shown, so that a secret across the limit is recognised or dropped whole
_DEPTH_LIMIT = 64

_Replace = Callable[["re.Match[str]"], str]


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern, tried only where the lower-cased text holds one of the needles."""

    needles: frozenset[str]
    pattern: re.Pattern[str]
    replace: _Replace | str
    gate: str = ""
    """A pattern that a text in small letters has to match, where the needles are in many texts."""


# --- values known by the text beside them -------------------------------------------------------------------------

_QUOTED = r"""
    \\{1,8}"[^"\n]*+"? | \\{1,8}'[^'\n]*+'?              # quoted inside a string that is itself quoted
  | "(?:[^"\\\n]|\\.)*+"? | '(?:[^'\\\n]|\\.)*+'? | `[^`\n]*+`?
"""
_VALUE = rf"""(?P<value>
    [|>][+-]?[0-9]?[ \t]*+\n(?:[ \t]++[^\n]*+\n?)++      # a YAML block
  | {_QUOTED}
  | (?:[^\s"'`&\\]|&(?![A-Za-z_][\w.-]{{0,64}}=)|\\(?!["'nrt]))++
)"""
_LINE_VALUE = rf"""(?P<value>{_QUOTED} | [^\s"'`\\][^"'`\r\n\\]*+)"""
_BESIDE = r"""(?:\\{0,8}["'])?[ \t]{0,16}(?::[ ]?[&'\w<>\[\]|.]{1,40}[ ]=[ ]|=>|:=|=(?!=)|:(?!:))[ \t]{0,16}"""
_WORDS = r"""(?:
    passw(?:or)?d\w{0,32} | token(?!s) | bearer
  | (?:passphrase|passcode|secret|credential|connection[_-]?string
     |(?:api|access|secret|private|signing|encryption|ssh|deploy|account|storage|master|shared|service)[_-]?key)s?
)\d{0,4}"""
# Not secrets: a type or an absent value in code, a reference to a variable, a mask, text that is already redacted.
_HARMLESS = lazy_regex(
    r"(?:|null|none|nil|true|false|undefined|str|string|int|bytes|bool|boolean|number|any|object|optional|required"
    r"|stdin|(?:env|file|fd):.*|(?:os\.)?(?:environ|getenv)(?:[\[(]|\.get\()?|process\.env(?:\.\w+|\[)?|env\["
    r"|\$\{?[A-Z_][A-Z0-9_]*\}?|\$\{\{.*|\$\(.*|\{\{.*|<[\w -]+>|\*{3,}|(?:\w+ )?\[redacted(?::[a-z-]+)?\]?)",
    re.IGNORECASE,
)
_DOLLAR_WORD = lazy_regex(r"\$[a-z]")  # a lower-case $name may as well be a password that begins with a dollar
_QUOTES = lazy_regex(r"""\\{0,8}["'`]""")
_FILE_ERROR = lazy_regex(
    r"(?i)(?:permission denied|no such file or directory|is a directory|not a directory|file exists"
    r"|operation not permitted|read-only file system|too many levels of symbolic links|input/output error"
    r"|password (?:updated|changed|unchanged|expiry)|(?:all )?authentication (?:tokens?|failure)"
    r"|(?:un)?locking (?:the )?password|cannot (?:lock|open))\b"
)
"""What a program says after the name of a file, or its own: `/etc/passwd: Permission denied`, `passwd: password updated`."""


_NAMES_COMMAND = lazy_regex(r"(?i)passw(?:or)?d_?(?:command|cmd)\W*$")
_LINE_SEEN = 200


def _is_harmless(value: str) -> bool:
    return _HARMLESS.fullmatch(value) is not None and not _DOLLAR_WORD.match(value)


def _closes(text: str, at: int, quote: str) -> bool:
    """Whether the quote at a place ends a text of its line, as in `read -p "Password: " x`. Reads 200 characters at most."""
    start = max(text.rfind("\n", max(0, at - _LINE_SEEN), at), at - _LINE_SEEN - 1)
    near = at <= _LINE_SEEN or text[start : start + 1] == "\n"
    return near and text.count(quote, start + 1 if start >= 0 else 0, at) % 2 == 1


def _beside(match: re.Match[str]) -> str:
    """The match with its value replaced; the name and the quotes stay."""
    head, value = match["head"], match["value"]
    if _FILE_ERROR.match(match.string, match.start("value")) or _NAMES_COMMAND.search(head):
        return match[0]
    opening = quote[0] if (quote := _QUOTES.match(value)) else ""
    closing = opening if opening and len(value) >= 2 * len(opening) and value.endswith(opening) else ""
    if not opening:
        closing = value[len(value.rstrip(",;)]}\n")) :]  # belongs to the text around a bare value
    core = value[len(opening) : len(value) - len(closing)]
    if _is_harmless(core) or (opening and not closing and _closes(match.string, match.start("value"), opening)):
        return match[0]
    return f"{head}{opening}{REDACTED}{closing}"


def _userinfo(match: re.Match[str]) -> str:
    name = match["value"]
    return match[0] if name.isalpha() and len(name) < 16 else f"://{REDACTED}@"  # a name alone is no secret: git@


def _basic(match: re.Match[str]) -> str:
    text = match["value"]
    try:
        plain = b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return match[0]
    return f"{match['head']}{REDACTED}" if b":" in plain else match[0]


def _near(needles: str, pattern: str, replace: _Replace = _beside) -> _Rule:
    return _Rule(frozenset(needles.split()), lazy_regex(pattern, re.VERBOSE), replace)


# --- tokens known by their form, then the values beside names -------------------------------------------------------

_RULES = (
    *(_Rule(one.needles, one.pattern, f"[redacted:{one.kind}]", one.sign) for one in (PRIVATE_KEY, *TOKEN_FORMATS)),
    _near(
        "hooks.slack.com discord",
        r"(?P<head>hooks\.slack\.com/[a-z]{1,16}/|discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]{1,24}/)"
        r"(?P<value>[\w/-]++)",
        lambda match: f"{match['head']}[redacted:webhook-url]",
    ),
    _Rule(WEBHOOK_URL.needles, WEBHOOK_URL.pattern, f"[redacted:{WEBHOOK_URL.kind}]"),
    _near("://", r"""://(?P<value>[^\s/?\#"'<>]+)@""", _userinfo),
    # A password with an unencoded slash; a number between a colon and a slash is a port instead.
    _near("://", r"""://(?P<value>[^\s/?\#"'<>@:\[]{0,256}:(?![0-9]{1,5}[/?\#])[^\s"'<>@]{1,512})@""", _userinfo),
    # A header in a dump runs to the end of its line, one inside a command or a JSON text to the closing quote.
    _near(
        "authorization cookie",
        r"(?im)^(?P<head>[ \t<>*]{0,8}(?:proxy-authorization|authorization|set-cookie2?|cookie)[ \t]{0,8}:[ \t]{0,8})"
        r"(?P<value>[^\s][^\r\n]*+)",
    ),
    _near(
        "authorization cookie",
        rf"(?i)(?P<head>(?:authorization|cookies?){_BESIDE}){_LINE_VALUE}",
    ),
    _near(
        "bearer",
        r"(?i)(?P<head>\bbearer[ \t]{1,8})"
        r"(?P<value>(?!(?:tokens?|auth\w{0,16}|schemes?|realm|header)\b)[A-Za-z0-9._~+/=-]{6,}+)",
    ),
    _near("basic", r"(?i)(?P<head>\bbasic[ \t]{1,8})(?P<value>[A-Za-z0-9+/]{6,}+={0,2})", _basic),
    _near(
        "passw token bearer passphrase passcode secret credential key connection",
        rf"(?i)(?P<head>{_WORDS}{_BESIDE}){_VALUE}",
    ),
    _near(
        "_key _pat _pass _pw _auth _creds",
        rf"(?P<head>(?<=[A-Za-z0-9])_(?:KEY|PAT|PASS|PWD?|AUTH|CREDS|pwd|pass){_BESIDE}){_VALUE}",
    ),
    _near("sshpass=", rf"(?P<head>\bSSHPASS=){_VALUE}"),
    _near(
        "pass token bearer secret credential key connection",
        rf"(?i)(?P<head>(?<![\w-])--?(?:[a-z0-9._-]{{0,40}}?{_WORDS}|(?:[a-z0-9._-]{{0,40}}[._-])?pass)[ \t]{{1,8}}"
        rf"(?:<<<[ \t]{{0,8}})?)(?!-|[0-9]{{1,2}}(?![^\s])|~?/[\w./-]*credentials)(?!\.\.?/){_VALUE}",
    ),
    _near(
        "-pw -pass _pw _pass userpass -pin -otp -jwt -psk authkey auth-key auth_key hmac license decryption",
        r"(?i)(?P<head>(?<![\w-])--?(?:[a-z0-9._-]{0,40}?(?:pwd?|user-?pass|auth[-_]?key|(?:hmac|license|decryption)[-_]key)"
        rf"|(?:[a-z0-9._-]{{0,40}}[._-])?(?:pass|pin|otp|jwt|psk))(?:[ \t]{{1,8}}|=))"
        rf"(?!-|[0-9]{{1,2}}(?![^\s])|\.\.?/){_VALUE}",
    ),
    _near(
        "-auth --creds --cred --login",
        r"(?i)(?P<head>(?<![\w-])--(?:[a-z-]{0,20}-)?(?:auth|creds?|credentials|login)(?:[ \t]{1,8}|=)[\"']?)"
        r"(?P<value>[\w.@+-]{1,64}:(?!//)[^\s\"':/][^\s\"']{2,})",
    ),
    _near("/pass: /pwd:", r"(?i)(?P<head>(?<!\S)/(?:pass|pwd):)(?P<value>[^\s\"']++)"),
    _near(
        "password-c password_c passcommand passphrase-c passphrase_c pass-c pass_c",
        r"(?i)(?P<head>pass(?:word|phrase)?[-_]?(?:command|cmd)(?:=|[ \t]{1,8})[\"']?(?:echo|printf)[ \t]{1,8}"
        r"(?:-n[ \t]|%s[ \t])?[ \t]{0,8})(?P<value>[^\s\"']++)",
    ),
    _near(
        "auth ",
        r"(?P<head>AUTH(?:(?<=^AUTH)|(?<=[\"'\n]AUTH)|(?<=\\nAUTH)|(?<=echo[ ]AUTH)|(?<=[\n ][ \t]AUTH))[ \t]{1,4}"
        r"(?:PLAIN[ \t]|(?!PLAIN|LOGIN)[\w.-]{1,32}[ \t]{1,4})?)"
        r"(?P<value>(?!(?:required|failed|ok|error|enabled|disabled|success\w*|needed|missing|PLAIN|LOGIN|CRAM\S*|TLS|SSL|GSSAPI)\b)"
        r"[^\s\"'\\]{4,})(?=[ \t]*(?:$|[\"'|\r\n]|\\[rn]))",
    ),
    _near("login", r"(?P<head>\blogin[ \t]{1,8}\S{1,200}\s{1,8}password[ \t]{1,8})(?P<value>\S++)"),  # .netrc
    _near(
        "identified password",
        r"(?i)(?P<head>\b(?:identified[ \t]{1,8}by|(?:with|role[ \t]{1,8}\S{1,64}|user[ \t]{1,8}\S{1,64})[ \t]{1,8}"
        r"(?:encrypted[ \t]{1,8})?password)[ \t]{1,8})"
        r"(?P<value>'[^'\n]*+'|\\{0,8}\"[^\"\\\n]*+\\{0,8}\")",
    ),
    _near(
        "?",
        r"""(?i)(?P<head>[?&](?:sig|signature|x-(?:amz|goog)-(?:signature|credential)|code|key|auth|session)=)"""
        r"""(?P<value>[^\s&"'<>\#]++)""",
    ),
)

_NEEDLES = LiteralSearch(sorted({needle for rule in _RULES for needle in rule.needles}))
_ANY_NEEDLE = "|".join(
    sorted({rule.gate or re.escape(needle) for rule in _RULES for needle in (("",) if rule.gate else rule.needles)})
)
"""Matches any needle. Most texts have none, and one search for all takes a tenth of a search for each (measured on RE2)."""


def redact_text(text: str) -> str:
    """The text with every recognised secret replaced; text beyond TEXT_LIMIT is cut off, and the number of characters given."""
    cut = len(text) - TEXT_LIMIT
    if cut > 0:
        text = text[:TEXT_LIMIT]
    given, lowered = text, text.lower()
    if compile_regex(_ANY_NEEDLE, own=True).search(lowered) is not None:
        found = _NEEDLES.find(lowered)
        for rule in _RULES:
            if not rule.needles.isdisjoint(found):
                text = rule.pattern.sub(rule.replace, text)
        if text.lower() != lowered:
            lowered = text.lower()
    text = hide_in_commands(text, lowered, REDACTED, _is_harmless, is_secret_name)
    count_replacements(text, given)
    return f"{text[:-_OVERLAP]} [{cut + _OVERLAP} more characters, not shown]" if cut > 0 else text


def redact(value: object) -> object:
    """A copy of JSON-like data in which secrets are replaced: values whose key names a secret, and as in `redact_text`.

    Dicts, lists, tuples (as lists), bytes (as text) and strings are searched. Numbers, booleans and None stay unless their
    key names a secret. Any other object becomes its redacted text, so that its repr carries no secret.
    """
    return _redact(value, 0, redact_text)


def redact_whole(value: object) -> object:
    """As `redact`, but long texts are kept whole.

    They are scanned in windows that end with a line; only a single line longer than TEXT_LIMIT is cut.
    """
    return _redact(value, 0, _redact_long)


def _redact_long(text: str) -> str:
    if len(text) <= TEXT_LIMIT:
        return redact_text(text)
    if "PRIVATE KEY" in text:  # the one form that may be longer than a line
        text = _RULES[0].pattern.sub(_RULES[0].replace, text)
    windows, start = [], 0
    while start < len(text):
        end = len(text) if len(text) - start <= TEXT_LIMIT else text.rfind("\n", start, start + TEXT_LIMIT) + 1
        end = end if end > start else text.find("\n", start) + 1 or len(text)
        windows.append(redact_text(text[start:end]))
        start = end
    return "".join(windows)


def redact_texts(texts: Mapping[str, str]) -> dict[str, str]:
    """The texts without secrets. One scan over all comes first: most texts have none, and each scan costs 10 us."""
    together = "\n".join(texts.values())
    clean = redact_text(together) == together
    return dict(texts) if clean else {name: redact_text(text) for name, text in texts.items()}


def redact_event(event: Event) -> Event:
    """A copy of the event without secrets in its texts, input, output, data and raw payload."""
    texts = redact_texts({name: getattr(event, name) for name in _EVENT_TEXTS})
    details = {name: redact(getattr(event, name)) for name in ("input", "output", "data", "raw")}
    return msgspec.structs.replace(event, **texts, **details)


_EVENT_TEXTS = ("id", "source", "session", "host", "cwd", "native", "tool", "call", "type", "native_tool")


def redact_url(url: str) -> str:
    """A URL without its userinfo, secret query and fragment values, and webhook tokens in its path."""
    text = redact_text(url)
    base, mark, rest = text.partition("?")
    if not mark:
        base, mark, rest = text.partition("#")
    parts = re.split(r"([&;#?])", rest)
    return base + mark + "".join(_parameter(part) for part in parts)


def _parameter(pair: str) -> str:
    name, equals, value = pair.partition("=")
    if not equals or value.startswith(REDACTED[:-1]):
        return pair
    plain = unquote(value)
    hidden = is_secret_name(unquote(name)) or redact_text(plain) != plain
    return f"{name}={hide()}" if hidden else pair


_CAMEL = lazy_regex(r"(?<=[a-z0-9])(?=[A-Z])")
_SECRET_NAME = lazy_regex(
    r"passw(?:or)?d|(?:^|_)passwd|(?:passphrase|passcode|secret|credential|cookie)s?$|_pwd$|_pass$|_pat$|(?:^|_)auth$"
    r"|token$|(?:access|refresh|auth|api|session|bearer)_?tokens$|bearer$|authorization$|connection_?string$"
    r"|(?:api|access|secret|private|signing|encryption|ssh|deploy|account|storage|master|shared|service)_?keys?$"
)


@lru_cache(maxsize=4096)  # the same few keys come with every event
def is_secret_name(name: str) -> bool:
    """Whether a key, header, variable or flag of this name holds a secret: by its last word, in any casing."""
    snake = re.sub(r"[^a-z0-9]+", "_", _CAMEL.sub("_", name[-256:]).lower())
    return _SECRET_NAME.search(snake.rstrip("_0123456789")) is not None


@lru_cache(maxsize=4096)  # likewise
def _redact_name(name: str) -> str:
    return redact_text(name)


def _redact(value: object, depth: int, text: Callable[[str], str]) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return text(value)
    if depth >= _DEPTH_LIMIT:
        return "[redacted:too-deep]"
    if isinstance(value, Mapping):
        return _redact_mapping(value, depth + 1, text)
    if isinstance(value, list | tuple):
        return _redact_items(value, depth + 1, text)
    if isinstance(value, bytes | bytearray | memoryview):
        return redact_text(bytes(value[: TEXT_LIMIT + 1]).decode("utf-8", "replace"))
    return redact_text(str(value))


def _redact_mapping(mapping: Mapping[object, object], depth: int, text: Callable[[str], str]) -> dict[object, object]:
    shown: dict[object, object] = {}
    label = mapping.get("name", mapping.get("key"))
    labelled = isinstance(label, str) and is_secret_name(label)  # {"name": "API_TOKEN", "value": "..."}
    for key, value in mapping.items():
        name = _redact_name(key) if isinstance(key, str) else key
        secret = isinstance(key, str) and (is_secret_name(key) or (labelled and key.lower() == "value"))
        shown[name] = _whole(value) if secret else _redact(value, depth, text)
    return shown


def _redact_items(items: list[object] | tuple[object, ...], depth: int, text: Callable[[str], str]) -> list[object]:
    shown: list[object] = []
    previous = ""
    if items and isinstance(items[0], str) and is_program(items[0]) and all(isinstance(item, str) for item in items):
        items = _redact_argv([str(item) for item in items])
    for position, item in enumerate(items):
        # ["--token", "abc"] of a command line, and ["Cookie", "abc"] of a header list
        flagged = previous.startswith("-") and is_secret_name(previous)
        paired = position == 1 and len(items) == 2 and previous.lower() in _HEADERS
        hidden = isinstance(item, str) and ((flagged and not item.startswith("-")) or paired)
        shown.append(hide() if hidden else _redact(item, depth, text))
        previous = item if isinstance(item, str) and "=" not in item else ""
    return shown


def _redact_argv(words: list[str]) -> list[object]:
    """A command as a list, such as `["mysql", "-pX"]`, with the secrets replaced that `command_table` lists."""
    for place, start, end in list(hidden_words(words, _is_harmless, is_secret_name)):
        words[place] = f"{words[place][:start]}{REDACTED}{words[place][end:]}"
    return list(words)


_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key"})


def _whole(value: object) -> object:
    """The replacement for a value whose key names a secret. An empty value stays: "no password" is worth knowing."""
    return value if value is None or isinstance(value, bool) or value in ("", [], {}) else hide()
