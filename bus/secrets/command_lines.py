"""Passwords on command lines: which option or operand of which program is a secret.

`mysql -pX` and `docker login -p X` give a password, `mkdir -p x` and `docker run -p 80:80` do not. So the table below says by
program where its secrets are. Options that name a secret (`--password`, `--api-key`) need no line here: `redaction` knows
them by their names. Takes time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from bus.matching.regexes import compile_regex

Span = tuple[int, int, int]
"""The number of a word, and where in it the secret begins and ends."""


class _Program(NamedTuple):
    """Where a program takes secrets. Names of options are separated by blanks."""

    secret: frozenset[str] = frozenset()
    """The option's value is a secret: `-p X`, and for one letter `-pX` too."""
    exact: frozenset[str] = frozenset()
    """As `secret`, but never within one word, since other options begin alike: `openssl -k X` and `-key file`."""
    attached: frozenset[str] = frozenset()
    """Only within one word: `mysql -pX`; alone the program asks for it."""
    login: frozenset[str] = frozenset()
    """The value is a name and a secret: `-u name:X`."""
    signs: str = ":"
    """What may be between name and secret."""
    passes: frozenset[str] = frozenset()
    """The value is a secret if it begins with `pass:`."""
    pairs: frozenset[str] = frozenset()
    """The value is `name=X`."""
    verbs: frozenset[str] = frozenset()
    """The other fields count after one of these words only; empty: always."""
    after: dict[str, int] = {}  # noqa: RUF012  (never changed)
    """By word, which of the next words is a secret: 1 is the next one."""
    named: frozenset[str] = frozenset()
    """After this word comes a name, and then its value, which is a secret if the name says so."""
    operands: Callable[[Sequence[str]], Iterator[Span]] | None = None
    """Finds secrets that no option announces; gets the program's own words."""
    stdin: frozenset[str] = frozenset()
    """With one of these words it reads a secret from its standard input; `*` always."""


def _program(
    secret: str = "",
    *,
    exact: str = "",
    attached: str = "",
    login: str = "",
    signs: str = ":",
    passes: str = "",
    pairs: str = "",
    verbs: str = "",
    after: dict[str, int] | None = None,
    named: str = "",
    operands: Callable[[Sequence[str]], Iterator[Span]] | None = None,
    stdin: str = "",
) -> _Program:
    return _Program(
        frozenset(secret.split()),
        frozenset(exact.split()),
        frozenset(attached.split()),
        frozenset(login.split()),
        signs,
        frozenset(passes.split()),
        frozenset(pairs.split()),
        frozenset(verbs.split()),
        after or {},
        frozenset(named.split()),
        operands,
        frozenset(stdin.split()),
    )


def _htpasswd(words: Sequence[str]) -> Iterator[Span]:
    """`htpasswd -b file user X`: the last operand."""
    if any(word[:1] == "-" and word[:2] != "--" and "b" in word for word in words) and len(words) > 2:
        yield len(words) - 1, 0, len(words[-1])


def _sqlplus(words: Sequence[str]) -> Iterator[Span]:
    """`sqlplus user/X@db`."""
    for place, word in enumerate(words):
        user, slash, rest = word.partition("/")
        if slash and user.strip("\"'") and rest and word[:1] != "-":
            start = len(user) + 1
            end = start + rest.find("@") if "@" in rest else len(word)
            yield place, start, end
            return


def _rdp(words: Sequence[str]) -> Iterator[Span]:
    """`xfreerdp /p:X`."""
    yield from ((place, 3, len(word)) for place, word in enumerate(words) if word.startswith("/p:"))


def _auth_type(words: Sequence[str]) -> Iterator[Span]:
    """`http -A bearer -a X`."""
    if "-A" in words or "--auth-type" in words:
        for place, word in enumerate(words[:-1]):
            if word in ("-a", "--auth"):
                yield place + 1, 0, len(words[place + 1])


def _cookies(words: Sequence[str]) -> Iterator[Span]:
    """`curl -b name=X`; without a `=` it is the name of a file."""
    for place, word in enumerate(words[:-1]):
        if word in ("-b", "--cookie") and "=" in words[place + 1]:
            yield place + 1, 0, len(words[place + 1])


def _first(words: Sequence[str]) -> Iterator[Span]:
    """`ConvertTo-SecureString X`."""
    if words and words[0][:1] != "-":
        yield 0, 0, len(words[0])


_LOGIN: Final = _program("-p --password", verbs="login", stdin="--password-stdin")
_PROGRAMS: Final[dict[str, _Program]] = {
    name: program
    for names, program in {
        "docker podman nerdctl buildah skopeo helm oras crane regctl hub oc az cf ibmcloud": _LOGIN,
        "mongosh mongo mongodump mongorestore mongoexport mongoimport mongostat mongotop": _program("-p"),
        "redis-cli valkey-cli keydb-cli": _program(
            "-a", after={"auth": -1, "requirepass": 1, "masterauth": 1, "primaryauth": 1}
        ),
        "ldapsearch ldapmodify ldapadd ldapdelete ldapwhoami ldapcompare ldapmodrdn ldapexop": _program("-w"),
        "ldappasswd": _program("-w -s -a"),
        "aws": _program(named="set"),
        "npm pnpm yarn": _program(named="set"),
        "git": _program(named="config"),
        "setx": _program(named="setx"),
        "set": _program(named="-x -gx -xg -Ux -xU"),
        "http https httpie xh xhs": _program(login="-a --auth", operands=_auth_type),
        "curl": _program(
            "--oauth2-bearer",
            login="-u --user -U --proxy-user -E --cert --tlsuser",
            exact="--pass --proxy-pass --tlspassword",
            operands=_cookies,
        ),
        "wget": _program(login="--user"),
        "smbclient rpcclient smbget smbmap smbcacls wmic winexe": _program(login="-U --user", signs="%"),
        "openssl": _program(exact="-k -K", passes="-pass -passin -passout -password -passwd"),
        "zip unzip zipcloak zipnote funzip": _program("-P"),
        "7z 7za 7zr 7zz p7zip": _program(attached="-p"),
        "rar unrar": _program(attached="-p -hp"),
        "htpasswd": _program(operands=_htpasswd),
        "sshpass": _program("-p"),
        "mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlsh mysqlpump mysqlbinlog mysqlcheck mariadb mariadb-dump"
        " mariadb-admin mariadb-import mycli": _program(attached="-p", after={"password": 1}),
        "sqlcmd bcp osql tsql p4": _program("-P"),
        "sqlplus sqlldr expdp impdp": _program(operands=_sqlplus),
        "cqlsh rabbitmqadmin beeline twine ncftp ncftpput ncftpget ncftpls rdesktop useradd usermod yt-dlp youtube-dl"
        " psexec evil-winrm crackmapexec nxc hydra neo4j cypher-shell": _program("-p"),
        "rabbitmqctl": _program(after={"add_user": 2, "change_password": 2, "authenticate_user": 2}),
        "lftp": _program(login="-u", signs=","),
        "mosquitto_pub mosquitto_sub mosquitto_rr ipmitool": _program("-P"),
        "xfreerdp wfreerdp xfreerdp3": _program(operands=_rdp),
        "snmpget snmpwalk snmpset snmpbulkwalk snmpgetnext snmptrap": _program("-A -X -c"),
        "keytool jarsigner": _program(
            exact="-storepass -keypass -srcstorepass -deststorepass -srckeypass -destkeypass"
        ),
        "ssh-keygen": _program("-N -P"),
        "plink pscp psftp putty": _program(exact="-pw"),
        "pdftk": _program(after={"input_pw": 1, "owner_pw": 1, "user_pw": 1}),
        "nmcli": _program(after={"password": 1}),
        "wpa_passphrase": _program(after={"wpa_passphrase": 2}),
        "vault": _program(after={"login": 1}),
        "bw": _program(after={"unlock": 1, "login": 2}),
        "gh": _program("-b --body", verbs="secret", stdin="--with-token"),
        "doctl": _program("-t --access-token", verbs="auth"),
        "kubectl k": _program(pairs="--from-literal", verbs="secret"),
        "fly flyctl": _program(verbs="secrets", after={"set": -2}),
        "convertto-securestring": _program(operands=_first),
        "sudo": _program(stdin="-S --stdin"),
        "passwd": _program(stdin="--stdin"),
        "chpasswd": _program(stdin="*"),
        "requirepass masterauth": _program(operands=_first),
        "echo printf": _program(),
    }.items()
    for name in names.split()
}
_COMMAND_WORDS: Final = frozenset({"set", "echo", "printf", "passwd", "requirepass", "masterauth"})
"""Words that are programs only at the beginning of a command: `aws configure set`."""
_OPERATOR_PAIRS: Final = -2
_ALL: Final = -1
_FLAGS: Final = frozenset("sSfLkvigGIjlNnOpqRaB0146#")
"""Letters that may be before the letter of a login: `curl -sSfu name:X`."""

_ONLY_WITH: Final = {
    "aws npm pnpm yarn": r"[^\n]*[ \t]set[ \t]",
    "git": r"[^\n]*[ \t]config[ \t]",
    "set": r"[ \t]+-",
    "sudo": r"[^\n]*[ \t](?:-s|--stdin)\b",
    "docker podman nerdctl buildah skopeo helm oras crane regctl hub oc az cf ibmcloud": r"[^\n]*[ \t]login\b",
    "kubectl k gh doctl fly flyctl": r"[^\n]*[ \t](?:secrets?|auth)[ \t]",
    "echo printf": None,
}
"""What has to follow a program in its line, in small letters; others are read at once. None: others on the line decide."""
_LIMITED: Final = {name: after for names, after in _ONLY_WITH.items() for name in names.split()}
_ANY: Final = (
    "(?:^|[^a-z0-9_.:@%=-])(?:(?:"
    + "|".join(re.escape(name) for name in _PROGRAMS if name not in _LIMITED)
    + r")(?:\.exe)?(?:[ \t]+\S|\W*$|\")|"
    + "|".join(
        f"(?:{'|'.join(map(re.escape, names.split()))}){after}"
        for names, after in _ONLY_WITH.items()
        if after is not None
    )
    + ")"
)
_START: Final = re.compile(r"(?<![\w.:@%=-])([A-Za-z0-9][\w.+-]*)(?=[ \t]+\S)")
_TOKEN: Final = re.compile(
    r"""[ \t]*+ (?:
    (?P<sign> \|[|&]? | && | <<< | [;&()] | $ )
  | (?P<word> (?: \\{0,8}"[^"\n]*+"? | \\{0,8}'[^'\n]*+'? | [^\s"'|;&()<] | <(?!<<) )++ )
    )""",
    re.MULTILINE | re.VERBOSE,
)
_TAIL: Final = re.compile(r"""["'`](?=[\s,}\]:]|\Z)""")
"""A quote that ends what is around a bare word, as in JSON."""
_QUOTE: Final = re.compile(r"""\\{0,8}["'`]""")
_QUOTE_SIGN: Final = re.compile(r"[\"'\\]")
_PORTS: Final = re.compile(r"[0-9.]*:?[0-9-]+:[0-9-]+(?:/\w+)?")
_MOST_WORDS: Final = 256
"""Words of one command; later ones are read as another command."""
_MOST_LOOKED_AT: Final = 32
"""Words after a program in which secrets without an option are looked for."""

Harmless = Callable[[str], bool]
"""Whether a value is a reference, a placeholder or redacted already."""
Named = Callable[[str], bool]
"""Whether a name says that its value is a secret."""


def is_program(word: str) -> bool:
    """Whether the table has this program."""
    return _name(word) in _PROGRAMS


def hide_in_commands(text: str, lowered: str, mark: str, harmless: Harmless, named: Named) -> str:
    """The text with the secrets in its command lines replaced by `mark`; `lowered` is the text in small letters."""
    if compile_regex(_ANY).search(lowered) is None:
        return text
    cuts: list[tuple[int, int]] = []
    at = 0
    while (start := _START.search(text, at)) is not None:
        if start[1].lower().removesuffix(".exe") not in _PROGRAMS:
            at = start.end()
            continue
        at = _read(text, start.start(), cuts, harmless, named)
    parts: list[str] = []
    last = 0
    for begin, end in sorted(set(cuts)):
        if begin >= last:
            parts += (text[last:begin], mark)
            last = end
    return "".join((*parts, text[last:]))


def hidden_words(words: Sequence[str], harmless: Harmless, named: Named) -> Iterator[Span]:
    """Where in the words of one command secrets are."""
    found = _spans(words, named)
    yield from ((place, start, end) for place, start, end in found if not harmless(words[place][start:end]))


def _read(text: str, at: int, cuts: list[tuple[int, int]], harmless: Harmless, named: Named) -> int:
    """Note the secrets of the commands that begin at a place of a line; returns where they end."""
    before: list[tuple[int, int]] = []
    while True:
        words: list[tuple[int, int]] = []
        sign = ""
        while len(words) < _MOST_WORDS and (token := _TOKEN.match(text, at)) is not None:
            at = token.end()
            if token["word"] is None:
                sign = token["sign"]
                if sign == "<<<" and (value := _TOKEN.match(text, at)) is not None and value["word"]:
                    if _reads_secret([text[begin:end] for begin, end in words]):
                        _cut(text, (value.start("word"), value.end("word")), None, cuts, harmless)
                    at = value.end()
                    continue
                break
            words.append((token.start("word"), token.end("word")))
        plain = [text[begin:end] for begin, end in words]
        for place, start, end in _spans(plain, named):
            _cut(text, words[place], (start, end), cuts, harmless)
        if before and _reads_secret(plain):
            for word in before:
                _cut(text, word, None, cuts, harmless)
        if sign not in ("|", "|&"):
            return at if words or sign else at + 1
        printing = next((place for place, word in enumerate(plain[:4]) if _name(word) in ("echo", "printf")), None)
        before = words[printing + 1 :] if printing is not None else []


def _cut(
    text: str, word: tuple[int, int], span: tuple[int, int] | None, cuts: list[tuple[int, int]], harmless: Harmless
) -> None:
    """Note a part of a word, without the quotes around it, unless it is no secret."""
    begin, end = word if span is None else (word[0] + span[0], word[0] + span[1])
    value = text[begin:end]
    if quote := _QUOTE.match(value):
        begin += quote.end()
        closing = value.find(quote[0], quote.end())
        end = word[1] if closing < 0 else min(end, begin + closing - quote.end())
    elif tail := _TAIL.search(value):
        end = begin + tail.start()
    core = text[begin:end]
    if core and not core.startswith("-") and not harmless(core) and (span is not None or core not in ("-n", "-e")):
        cuts.append((begin, end))


def _reads_secret(words: Sequence[str]) -> bool:
    """Whether a command reads a secret from its standard input."""
    for place, word in enumerate(words):
        program = _PROGRAMS.get(_name(word))
        if program is not None and program.stdin:
            return "*" in program.stdin or not program.stdin.isdisjoint(map(_bare, words[place:]))
    return False


def _spans(words: Sequence[str], named: Named) -> Iterator[Span]:
    """Where in the words of one command secrets may be."""
    program, first, ready = None, 0, False
    for place, word in enumerate(words):
        name = _name(word)
        if name in _PROGRAMS and (
            place == 0 or (name not in _COMMAND_WORDS and (words[place - 1][:1] != "-" or program is _PROGRAMS["sudo"]))
        ):
            program, first = _PROGRAMS[name], place
            ready = not program.verbs
            if program.operands is not None:
                own = words[place + 1 : place + 1 + _MOST_LOOKED_AT]
                yield from ((place + 1 + number, start, end) for number, start, end in program.operands(own))
        if program is None:
            continue
        ready = ready or word in program.verbs
        if ready:
            yield from _of_word(program, words, place, first, named)


def _of_word(program: _Program, words: Sequence[str], place: int, first: int, named: Named) -> Iterator[Span]:
    word, rest = words[place], words[place + 1 : place + 2]
    option, equals, value = word.partition("=")
    option = option if equals and option[:1] == "-" else word
    short = word[:2] if word[:1] == "-" and word[1:2] not in ("", "-") else ""
    if word in program.secret or word in program.exact:
        yield from _next(place, rest)
    elif option in program.secret and equals:
        yield place, len(option) + 1, len(word)
    elif short in program.secret or short in program.attached or word[:3] in program.attached:
        start = 3 if word[:3] in program.attached else 2
        if len(word) > start and not _PORTS.fullmatch(word[start:]):
            yield place, start, len(word)
    elif word in program.passes and rest and "pass:" in rest[0][:12]:
        yield place + 1, rest[0].index("pass:") + 5, len(rest[0])
    elif option in program.pairs:
        pair = value if equals else rest[0] if rest else ""
        if "=" in pair:
            start = pair.index("=") + 1
            yield (place, len(option) + 1 + start, len(word)) if equals else (place + 1, start, len(pair))
    elif program.login and word[:1] == "-":
        yield from _logins(program, word, place, rest)
    yield from _after(program, words, place, first, named)


def _next(place: int, rest: Sequence[str]) -> Iterator[Span]:
    if rest and not rest[0].startswith("-"):
        yield place + 1, 0, len(rest[0])


def _logins(program: _Program, word: str, place: int, rest: Sequence[str]) -> Iterator[Span]:
    """`-u name:X`, `-uname:X`, `--user=name:X` and, among other letters, `-sSu name:X`."""
    option, equals, value = word.partition("=")
    if equals and option in program.login:
        found = (place, len(option) + 1, value)
    elif word in program.login or (f"-{word[-1]}" in program.login and _FLAGS.issuperset(word[1:-1])):
        found = (place + 1, 0, rest[0] if rest else "")
    elif word[:2] in program.login:
        found = (place, 2, word[2:])
    else:
        return
    number, start, text = found
    plain = text.strip("\"'\\")
    name, sign, secret = next((parts for one in program.signs if (parts := plain.partition(one))[1]), ("", "", ""))
    numeric = name.isdigit() and secret.isdigit()  # docker's --user 1000:1000
    if (
        sign
        and not numeric
        and "://" not in plain
        and ((name and secret) or len(name) >= 16)
        and not plain.startswith(("-", "$"))
    ):
        yield number, start, start + len(text)


def _after(program: _Program, words: Sequence[str], place: int, first: int, named: Named) -> Iterator[Span]:
    """Secrets that follow a word: `redis-cli auth X`, `aws configure set name X`."""
    word = words[place].lower()
    if place > first or word in ("setx", "wpa_passphrase"):
        count = program.after.get(word, 0)
        if count == _OPERATOR_PAIRS:
            for number in range(place + 1, min(place + 1 + _MOST_LOOKED_AT, len(words))):
                if "=" in words[number] and words[number][:1] != "-":
                    yield number, words[number].index("=") + 1, len(words[number])
        elif count == _ALL:
            yield from ((number, 0, len(words[number])) for number in range(place + 1, min(place + 3, len(words))))
        elif count and place + count < len(words) and "=" not in words[place + count]:
            yield place + count, 0, len(words[place + count])
        if words[place] in program.named and place + 2 < len(words):
            near = range(place + 1, min(place + 8, len(words)))
            operands = [number for number in near if words[number][:1] != "-"][:2]
            if len(operands) == 2 and named(words[operands[0]].strip("\"'").replace(":_", "_")):
                yield operands[1], 0, len(words[operands[1]])


def _name(word: str) -> str:
    return _bare(word).rpartition("/")[2].lower().removesuffix(".exe")


def _bare(word: str) -> str:
    """A word up to a quote that ends what is around it, without the quote before it."""
    word = word.lstrip("\"'\\")
    end = _QUOTE_SIGN.search(word)
    return word if end is None else word[: end.start()]
