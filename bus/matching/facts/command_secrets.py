"""Finds passwords on command lines.

`mysql -pX` and `docker login -p X` contain a password, `mkdir -p x` and `docker run -p 80:80` do not. So `command_table`
lists the secret options and operands of each program. It needs no entry for options whose name says that they are secret
(`--password`, `--api-key`): `redaction` finds those. The time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.matching.facts.command_table import (
    COMMAND_WORDS,
    EACH_PAIR,
    EACH_WORD,
    ONLY_WITH,
    PROGRAMS,
    ProgramSecrets,
    Span,
)
from bus.matching.regexes import compile_regex

_FLAGS: Final = frozenset("sSfLkvigGIjlNnOpqRaB0146#")
"""Letters that may precede the letter of a login option: `curl -sSfu name:X`."""

_LIMITED: Final = {name: after for names, after in ONLY_WITH.items() for name in names.split()}


def _alternatives(names: Sequence[str]) -> str:
    """A pattern for any of these sorted names; a beginning of some letters that several share is written once."""
    parts: list[str] = []
    for start, group in groupby(names, key=lambda name: name[:_SHARED]):
        ends = [re.escape(name[_SHARED:]) for name in group]
        parts += (
            [re.escape(start) + end for end in ends] if len(ends) < 3 else [f"{re.escape(start)}(?:{'|'.join(ends)})"]
        )
    return "|".join(parts)


_SHARED: Final = 4
"""With this many letters the pattern is shortest."""
IN_COMMANDS: Final = (
    "(?:^|[^a-z0-9_.:@%=-])(?:(?:"
    + _alternatives(sorted(name for name in PROGRAMS if name not in _LIMITED))
    + r")(?:\.exe)?(?:[ \t]+\S|\W*$|\")|"
    + "|".join(
        f"(?:{'|'.join(map(re.escape, names.split()))}){after}"
        for names, after in ONLY_WITH.items()
        if after is not None
    )
    + ")"
)
"""A text in lower case without a match has no command of the table."""
_START: Final = lazy_regex(r"(?<![\w.:@%=-])([A-Za-z0-9][\w.+-]*)(?=[ \t]+\S)")
_TOKEN: Final = lazy_regex(
    r"""[ \t]*+ (?:
    (?P<sign> \|[|&]? | && | <<< | [;&()] | $ )
  | (?P<word> (?: \\{0,8}"[^"\n]*+"? | \\{0,8}'[^'\n]*+'? | [^\s"'|;&()<] | <(?!<<) )++ )
    )""",
    re.MULTILINE | re.VERBOSE,
)
_TAIL: Final = lazy_regex(r"""["'`](?=[\s,}\]:]|\Z)""")
"""A quote behind a bare word that ends the text around the word, as in JSON."""
_QUOTE: Final = lazy_regex(r"""\\{0,8}["'`]""")
_QUOTE_SIGN: Final = lazy_regex(r"[\"'\\]")
_PORTS: Final = lazy_regex(r"[0-9.]*:?[0-9-]+:[0-9-]+(?:/\w+)?")
_MOST_WORDS: Final = 256
"""The most words of one command; later ones are read as another command."""
_MOST_LOOKED_AT: Final = 32
"""The number of words after a program that are searched for secrets without an option."""

Harmless = Callable[[str], bool]
"""Whether a value is a reference, a placeholder or already redacted."""
Named = Callable[[str], bool]
"""Whether a name says that its value is a secret."""


def is_program(word: str) -> bool:
    """Whether the table has this program."""
    return _name(word) in PROGRAMS


def hide_in_commands(text: str, lowered: str, mark: str, harmless: Harmless, named: Named) -> str:
    """The text with the secrets in its command lines replaced by `mark`; `lowered` is the same text in lower case."""
    if compile_regex(IN_COMMANDS, own=True).search(lowered) is None:
        return text
    parts: list[str] = []
    last = 0
    for begin, end in places_in_commands(text, harmless, named):
        if begin >= last:
            parts += (text[last:begin], mark)
            last = end
    return "".join((*parts, text[last:]))


def places_in_commands(text: str, harmless: Harmless, named: Named) -> list[tuple[int, int]]:
    """The beginnings and ends of the secrets in the command lines of a text, in their order; they may overlap."""
    cuts: list[tuple[int, int]] = []
    at = 0
    while (start := _START.search(text, at)) is not None:
        if start[1].lower().removesuffix(".exe") not in PROGRAMS:
            at = start.end()
            continue
        at = _read(text, start.start(), cuts, harmless, named)
    return sorted(set(cuts))


def hidden_words(words: Sequence[str], harmless: Harmless, named: Named) -> Iterator[Span]:
    """The places of the secrets in the words of one command."""
    found = _spans(words, named)
    yield from ((place, start, end) for place, start, end in found if not harmless(words[place][start:end]))


def _read(text: str, at: int, cuts: list[tuple[int, int]], harmless: Harmless, named: Named) -> int:
    """Add the secrets of the commands that begin at a place of a line to `cuts`; returns where the commands end."""
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
    """Add the part of a word that is a secret to `cuts`, without the quotes around it; nothing if it is harmless."""
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
        program = PROGRAMS.get(_name(word))
        stdin = program.stdin if program is not None else ()
        if stdin and ("*" in stdin or not frozenset(stdin).isdisjoint(map(_bare, words[place:]))):
            return True
    return False


def _spans(words: Sequence[str], named: Named) -> Iterator[Span]:
    """The places in the words of one command that may be secrets."""
    program, first, ready = None, 0, False
    for place, word in enumerate(words):
        name = _name(word)
        if name in PROGRAMS and (
            place == 0 or (name not in COMMAND_WORDS and (words[place - 1][:1] != "-" or program is PROGRAMS["sudo"]))
        ):
            program, first = PROGRAMS[name], place
            ready = not program.verbs
            if program.operands is not None:
                own = words[place + 1 : place + 1 + _MOST_LOOKED_AT]
                yield from ((place + 1 + number, start, end) for number, start, end in program.operands(own))
        if program is None:
            continue
        ready = ready or word in program.verbs
        if ready:
            yield from _of_word(program, words, place, first, named)


def _of_word(program: ProgramSecrets, words: Sequence[str], place: int, first: int, named: Named) -> Iterator[Span]:
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


def _logins(program: ProgramSecrets, word: str, place: int, rest: Sequence[str]) -> Iterator[Span]:
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


def _after(program: ProgramSecrets, words: Sequence[str], place: int, first: int, named: Named) -> Iterator[Span]:
    """Secrets that follow a word: `redis-cli auth X`, `aws configure set name X`."""
    word = words[place].lower()
    if place > first or word in ("setx", "wpa_passphrase"):
        count = program.after.get(word, 0)
        if count == EACH_PAIR:
            for number in range(place + 1, min(place + 1 + _MOST_LOOKED_AT, len(words))):
                if "=" in words[number] and words[number][:1] != "-":
                    yield number, words[number].index("=") + 1, len(words[number])
        elif count == EACH_WORD:
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
    """A word without the quote before it, and without the quote that ends the text around it."""
    word = word.lstrip("\"'\\")
    end = _QUOTE_SIGN.search(word)
    return word if end is None else word[: end.start()]
