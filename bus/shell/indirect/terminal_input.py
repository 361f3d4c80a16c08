"""Programs that type a text into another terminal or window, or start a command there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Arg, Inner, Unwrap, names, read_options, script_from_stdin
from bus.shell.words import Output

_ESCAPED: Final = lazy_regex(r"\\(?:r|n|x0[ad]|u000[ad])")
_KITTY_VALUES: Final = names("-m --match -t --match-tab --from-file --bracketed-paste --to --password --password-file")
_TYPE_VALUES: Final = names(
    "--window --delay --args --file --terminator -d --key-delay -D --next-delay -H --key-hold --repeat --pane-id -p -s -k -P -M"
    " -m"
)


def _typed(words: Sequence[Arg]) -> Iterator[Inner]:
    """Words that are typed: a line end in them ends a command."""
    if words:
        text = _ESCAPED.sub("\n", " ".join(word.text for word in words)).replace("\r", "\n")
        yield Inner(script=text, sources=tuple(source for word in words for source in word.sources))


def _kitty(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """`kitty @ send-text 'rm x\\n'`, `kitten @ launch rm x`."""
    texts = [arg.text for arg in args]
    for verb in ("send-text", "send_text"):
        if verb in texts:
            options = read_options(args, _KITTY_VALUES, start=texts.index(verb) + 1)
            if options.has("--stdin"):
                yield script_from_stdin(stdin)
            yield from _typed(args[options.end :])
            return
    if "launch" in texts:
        yield Inner(argv=tuple(args[read_options(args, frozenset(), start=texts.index("launch") + 1).end :]))
    elif texts[:1] != ["@"]:
        rest = tuple(args[read_options(args, names("-c -o -d -T --title --class --config --directory")).end :])
        if rest:
            yield Inner(argv=rest)


def _wezterm(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """`wezterm cli send-text 'rm x'`, `wezterm start -- rm x`."""
    texts = [arg.text for arg in args]
    if "send-text" in texts:
        words = args[read_options(args, _TYPE_VALUES, start=texts.index("send-text") + 1).end :]
        yield from _typed(words)
        if not words:
            yield script_from_stdin(stdin)
        return
    for verb in ("start", "spawn", "split-pane"):
        if verb in texts:
            values = names("--cwd --workspace --class --pane-id --window-id --percent --cells --domain-name")
            rest = tuple(args[read_options(args, values, start=texts.index(verb) + 1).end :])
            if rest:
                yield Inner(argv=rest)
            return


def _keyboard(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """`xdotool type 'rm x'`, `ydotool type --file -`, `xdotool search … windowactivate type 'rm x'`."""
    texts = [arg.text for arg in args]
    if "exec" in texts:
        yield Inner(argv=tuple(args[texts.index("exec") + 1 :]))
    if "type" not in texts:
        return
    options = read_options(args, _TYPE_VALUES, start=texts.index("type") + 1)
    yield from _typed(args[options.end :])
    if options.end == len(args):
        yield script_from_stdin(stdin)


def _wtype(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`wtype 'rm x' -k Return`."""
    words = args[read_options(args, _TYPE_VALUES).end :]
    end = next((place for place, word in enumerate(words) if word.text[:1] == "-"), len(words))
    yield from _typed(words[:end])


def _zellij(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`zellij action write-chars 'rm x'`, `zellij run -- rm x`."""
    texts = [arg.text for arg in args]
    if "write-chars" in texts:
        yield from _typed(args[texts.index("write-chars") + 1 :])
    for verb in ("run", "new-pane", "r"):
        if verb in texts[:3] and "--" in texts:
            yield Inner(argv=tuple(args[texts.index("--") + 1 :]))
            return


def _dotool(_args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """`echo type rm x | dotool`."""
    for line in (stdin.text or "").split("\n"):
        if line.startswith("type "):
            yield Inner(script=line.removeprefix("type "), sources=stdin.programs)


TERMINAL_INPUT: Final[dict[str, Unwrap]] = {
    "kitty": _kitty,
    "kitten": _kitty,
    "wezterm": _wezterm,
    "xdotool": _keyboard,
    "ydotool": _keyboard,
    "wtype": _wtype,
    "dotool": _dotool,
    "zellij": _zellij,
}
"""How each program's arguments are read, by its name."""
