"""What a shell would run: seen through quoting, wrappers, pipes, nested scripts and broken input."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.shell import MAX_LENGTH, UNKNOWN, UNSET, Command, commands, commands_if_light, raw_names
from bus.shell.budget import FULL
from bus.shell.words import MAYBE_EMPTY
from tests.support.examples import examples
from tests.support.rows import rows
from tests.support.waiting import cpu_at_most


def lines(text: str) -> list[str]:
    return [command.line for command in commands(text).items]


def only(text: str) -> Command:
    (command,) = commands(text).items
    return command


@pytest.mark.req("X-07")
@rows(
    ("text", "expected"),
    [
        ("a; b && c || d | e & f\ng", ["a", "b", "c", "d", "e", "f", "g"]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("while a; do b; done; until c; do d; done", ["a", "b", "c", "d"]),
        ("case $x in y) a;; *) b;; esac", ["a", "b"]),
        ("(a; b); { c; }; ! d; [[ -n $(e) ]] && f", ["a", "b", "c", "d", "e", "f"]),
        (
            'echo $(a) `b` <(c) "$(d)" ${x:-$(e)} $((1 + $(f)))',
            ["a", "b", "c", "d", "e", "f", "echo $… $… $… $… $… $…"],
        ),
        ("x=$(a) arr=($(b)); export y=$(c)", ["a", "b", "c"]),
        ("# rm\nls # rm", ["ls"]),
        ("a | b | c\nrm x > f", ["a", "b", "c", "rm x"]),
        ("a | b | c d\n./x y 2>/dev/null\ne", ["a", "b", "c d", "x y", "e"]),
        ("a b\n\\rm x\n  \\rm y", ["a b", "rm x", "rm y"]),
        ("a \\\n  b \\\n  > f", ["a b"]),
        ("", []),
        ("   \n\t", []),
    ],
)
def test_it_finds_every_command_of_a_line(text: str, expected: list[str]) -> None:
    assert lines(text) == expected


@rows(
    "text",
    [
        "rm x",
        "\\rm x",
        "r''m x",
        '"rm" x',
        "'r'm x",
        "/bin/rm x",
        "$'\\x72\\155' x",
        "RM x",
        "rm \\\n  x",
        "rm 'x'",
        '$"rm" x',
        "c=rm; $c x",
        "c='rm x'; $c",
        "a=r; ${a}m x",
        "$(echo rm) x",
        "`which rm` x",
        "{rm,x}",
        "rm $'x'",
        "> log rm x",
        "rm > log x",
        "export c=rm && $c x",
        "for c in x; do rm $c; done",
        "p=(rm x); ${p[@]}",
        "f() { rm $1; }; f x",
    ],
)
def test_quoting_and_variables_do_not_hide_a_command(text: str) -> None:
    assert "rm x" in lines(text)


@rows(
    "text",
    [
        "sudo rm x",
        "sudo -u me -E A=1 rm x",
        "doas rm x",
        "env -i -u C A=b rm x",
        "env -S 'rm x'",
        "command rm x",
        "exec rm x",
        "nohup rm x",
        "time -p rm x",
        "timeout -k 1 5s rm x",
        "nice -n 5 rm x",
        "setsid rm x",
        "busybox rm x",
        "stdbuf -oL rm x",
        "bash -c 'rm x'",
        "sh -ec 'rm x'",
        "bash -o pipefail -c 'rm x'",
        "bash -c 'rm $1' _ x",
        "eval rm x",
        "eval 'rm' \"x\"",
        "ssh -p 22 me@host rm x",
        "ssh host 'rm x'",
        "su - me -c 'rm x'",
        "watch -n 1 rm x",
        "flock /l rm x",
        "flock /l -c 'rm x'",
        "echo x | xargs rm",
        "echo x | xargs -I{} rm {}",
        "xargs -a f -n 1 sh -c 'rm x'",
        "parallel rm ::: x",
        "trap 'rm x' EXIT",
        "echo 'rm x' | sh",
        "printf 'rm %s' x | bash",
        "cat <<E | sh\nrm x\nE",
        "sh <<E\nrm x\nE",
        "sh <<< 'rm x'",
        "sh -c \"bash -c 'rm x'\"",
        "sudo sh -c 'time rm x'",
        "git submodule foreach 'rm x'",
        'bash -c "$(echo rm x)"',
        "coproc rm x",
        "cat <<E && rm x\nE",
        "a | sudo b | rm x",
    ],
)
def test_it_sees_through_what_runs_other_commands(text: str) -> None:
    assert "rm x" in lines(text)


@pytest.mark.parametrize(
    "text",
    [
        "echo rm x",
        "echo 'a; rm x'",
        "grep 'rm x' f",
        "git commit -m '$(rm x)'",
        "cat > f <<'E'\nrm x\nE",
        "sudo -l rm x",
        "command -v rm x",
        "bash script.sh rm x",
        "python3 -c 'rm x'",
        "docker run i rm x",
        "printf '%s' 'rm x' > f",
    ],
)
def test_what_is_only_text_is_no_command(text: str) -> None:
    assert not any(line.startswith("rm") for line in lines(text))


def test_what_only_the_shell_knows_is_marked() -> None:
    date, command = commands('rm "$DIR/x" $1 "$(date)" "${Y:?}" ${#Z} $HOME/a "$PWD" ~/b "~/c"').items
    assert date.program == "date"
    assert command.words == (f"{UNSET}/x", UNKNOWN, UNKNOWN + MAYBE_EMPTY, UNKNOWN, UNKNOWN, "~/a", ".", "~/b", "./~/c")
    assert command.line == "rm $…/x $… $… $… $… ~/a . ~/b ./~/c"


@pytest.mark.req("X-09")
@rows(
    "text",
    [
        "declare -n short=long; long=/srv; rm -rf $short",
        "f() { local -n target=$1; rm -rf $target; }; T=/srv; f T",
        "declare -n short=long; short=/srv; rm -rf $long",
        "echo 'rm -rf /srv' | head -1 | sh",
        "printf '%s\\n' '#' 'rm -rf /srv' | grep -v '^#' | sort | bash",
        "yes 'rm -rf /srv' | head -n 1 | sh",
        "echo /srv | sort -u | xargs rm -rf",
        """echo '{"scripts": {"clean": "rm -rf /srv"}}' > package.json && npm run clean""",
        """echo '{"scripts": {"postinstall": "rm -rf /srv"}}' > package.json; npm install""",
        "deno run -A npm:rm@1 -rf /srv",
        "tee >(bash) <<< 'rm -rf /srv'",
        "echo 'rm -rf /srv' | tee /tmp/log >(sh)",
        "echo 'rm -rf /srv' > >(sh)",
        "find /srv -maxdepth 0 -exec rm -rf {} +",
    ],
)
def test_a_delete_is_seen_behind_references_filters_and_package_scripts(text: str) -> None:
    assert "rm -rf /srv" in lines(text)


def test_scripts_of_a_package_that_do_not_run_are_not_read() -> None:
    assert "rm -rf /srv" not in lines(
        """echo '{"scripts": {"clean": "rm -rf /srv"}}' > package.json && npm run build"""
    )


def test_a_command_whose_name_is_hidden_is_kept() -> None:
    assert [one.program for one in commands('$CMD -rf /; "$(pick)" x; ${DIR}/rm y').items] == [
        UNKNOWN,
        "pick",
        UNKNOWN,
        "rm",
    ]


def test_redirections_pipes_and_assignments() -> None:
    first, second, third = commands("A=1 B='x y' cat a 2>&1 2>/dev/null >out | sudo tee -a f >> log").items
    assert first.assignments == (("A", "1"), ("B", "x y"))
    assert first.redirects == ((">", "/dev/null"), (">", "out"))
    assert (second.program, third.program) == ("sudo", "tee")
    assert third.piped_from == ("cat",)
    assert third.writes == ("log",)
    assert only("> /dev/sda").redirects == ((">", "/dev/sda"),)
    assert [one.writes for one in commands("cd d && echo x > f").items] == [(), ("f",)]


@rows(
    "text",
    [
        "curl u | sh",
        "curl u | sudo -E bash -s -- x",
        "sh <(curl u)",
        ". <(curl u)",
        'sh -c "$(curl u)"',
        "eval `curl u`",
        "bash < <(curl u)",
        "curl u | tee f | sh",
        "(curl u; true) | sh",
        "sh <<< $(curl u)",
        "curl u | python3 -",
        "curl u | perl",
    ],
)
def test_it_knows_whose_output_runs_as_code(text: str) -> None:
    assert any("curl" in one.code_from for one in commands(text).items)


@pytest.mark.parametrize(
    "text", ["curl u | python3 -m json.tool", "curl u | sh x.sh", "curl u | grep sh", "x=$(curl u); sh"]
)
def test_data_is_not_code(text: str) -> None:
    assert not any(one.code_from for one in commands(text).items)


def test_it_follows_the_directory() -> None:
    found = {
        one.words[0]: one.directory
        for one in commands(
            "rm a; cd x; rm b; cd ../y && rm c; (cd /z; rm d); rm e; cd; rm f; cd -; rm g;"
            " cd $D; rm h; bash -c 'cd /k; rm i'; rm j"
        ).items
        if one.program == "rm"
    }
    assert found == {
        "a": ".",
        "b": "x",
        "c": "x/../y",
        "d": "/z",
        "e": "x/../y",
        "f": "~",
        "g": "x/../y",
        "h": UNSET,
        "i": "/k",
        "j": UNSET,
    }


@pytest.mark.parametrize("text", [":(){ :|:& };:", "b() { b | b & }; b", "function f { f & f & }; f"])
def test_a_fork_bomb_is_seen(text: str) -> None:
    assert any(one.fork_bomb for one in commands(text).items)


@pytest.mark.parametrize(
    "text", ["walk() { for d in *; do walk $d; done; }; walk", "f() { g | h & }; f", "f() { f 2>&1; }"]
)
def test_recursion_alone_is_no_fork_bomb(text: str) -> None:
    assert not any(one.fork_bomb for one in commands(text).items)


@pytest.mark.parametrize(
    "text", ["rm x ; echo 'open", "rm x ;; (", "rm x && ", "cat <<E; rm x\nE", "if a; then rm x", "rm x )"]
)
def test_what_cannot_be_parsed_is_read_as_far_as_it_goes(text: str) -> None:
    found = commands(text)
    assert "rm x" in [one.line for one in found.items]
    assert found.incomplete


def test_long_lines_are_cut_and_say_so() -> None:
    found = commands("rm x; " * MAX_LENGTH)
    assert found.truncated
    assert found.items[0].line == "rm x"
    assert not commands("rm x").truncated


def test_scripts_within_scripts_end_somewhere() -> None:
    found = commands("eval " * 50 + "rm x")
    assert found.incomplete
    assert max(one.depth for one in found.items) == 8


@rows(
    "text",
    [
        "(" * 60000,
        "$(" * 30000,
        "a|" * 32000,
        "`" * 60000,
        "{a,b}" * 12000,
        "'" * 60000,
        "x=a;" + "x=$x$x;" * 5000,
        "sudo " * 12000 + "rm",
        "f(){ " * 12000,
        "<<A\n" * 15000,
        "".join(f"f{i}(){{ f{i - 1}; f{i - 1}; }};" for i in range(1, 300)),
        "\ud800 rm \udfff",
        "\0\1\2\3\4rm x",
        "echo " + "{" * 3000 + "a,b" + "}" * 3000,
        "\\" * 60000,
        "${" * 20000,
    ],
)
def test_hostile_lines_take_bounded_time(text: str) -> None:
    with cpu_at_most(20):
        assert len(commands(text).items) <= 2000


@given(st.text(alphabet=st.sampled_from(list("rm -xf/$(){}[]<>|&;'\"`\\#*~=!\n\ta:EO")), max_size=200))
@settings(max_examples=examples(300))
def test_it_never_raises(text: str) -> None:
    for command in commands(text).items:
        assert isinstance(command.line, str)


@given(st.text(max_size=200))
@settings(max_examples=examples(100))
def test_it_never_raises_for_any_text(text: str) -> None:
    commands(text)


@rows("address", ["http://a]b/c", "//[", "x]", "http://a\u2100b/c"])
def test_it_never_raises_for_what_is_no_address(address: str) -> None:
    assert [one.words for one in commands(f"wget {address} && curl -O '{address}'").items] == [
        (address,),
        ("-O", address),
    ]


DEADLY = r"""
import random
from bus.shell import commands
chance = random.Random(1)
for _ in range(400):
    commands("".join(chance.choice("{}$(<\n ax") + chr(chance.randrange(0x10000, 0x110000)) for _ in range(60)))
"""


def test_no_character_kills_the_parser() -> None:
    """In a process of its own: whoever can end an evaluator by a command's text has no guard any more."""
    done = subprocess.run([sys.executable, "-c", DEADLY], capture_output=True, check=False)
    assert done.returncode == 0, done


def test_words_outside_of_ascii_stay_what_they_are() -> None:
    (command,) = commands("rm -rf ~/Übung\u2003ß {é,\U00031860}").items
    assert command.words == ("-rf", "~/Übung\u2003ß", "é", "\U00031860")


LAYERS = (
    "sudo {}",
    "({})",
    "a; {}",
    "{} && b",
    "echo $({})",
    "if c; then {}; fi",
    "{{ {}; }}",
    "d | {}",
    "{} > log",
    "! {}",
    "time {}",
    "while e; do {}; done",
    "x=$({})",
    "bash -c {q}",
    "eval {q}",
    "f() {{ {}; }}; f",
    "nohup env A=1 {} &",
    "{} | cat",
    "case x in x) {};; esac",
    "! while e; do {}; done",
)


@rows("seed", range(60))
def test_the_same_command_is_found_in_any_nest(seed: int) -> None:
    """Wrap `rm -rf /x` in random layers; it has to come out again."""
    choose = random.Random(seed)
    text = "rm -rf /x"
    for _ in range(choose.randint(1, 5)):
        layer = choose.choice(LAYERS)
        if layer.startswith(("sudo", "time", "nohup", "!")) and not text.startswith(("rm", "sudo", "env")):
            layer = "bash -c {q}"  # these take a program, and the text is a statement by now
        text = layer.format(text, q="'" + text.replace("'", "'\\''") + "'")
    assert "rm -rf /x" in lines(text), text


@pytest.mark.req("X-09")
@rows(
    "text",
    [
        "[ -d / ] && rm x",
        "if [ -d / ]; then rm x; fi",
        "[ -d ~ ] || rm x",
        "[ a \\< b ]; rm x",
        "[ x = - ] && rm x && [ -d / ]",
        "[[ -d / ]] && rm x",
        "[[ $a == *.c && -d / ]] && rm x",
        "{fd}>x rm x",
        "rm x {fd}<>y",
        "exec {fd}<>y; rm x",
        "ls !(a|b) && rm x",
        "ls +(a) *.@(b|c); rm x",
        "case $a in b) ls ;& *) rm x;;& esac",
        "cat > f <<'E'\n" + "hello, world\n" * 6000 + "E\nrm x",
    ],
)
def test_ordinary_bash_that_the_grammar_does_not_know_is_read(text: str) -> None:
    found = commands(text)
    assert not found.incomplete
    assert not found.stopped
    assert "rm x" in [one.line for one in found.items]


@pytest.mark.req("X-09")
def test_a_test_hides_no_command_and_is_none() -> None:
    assert lines("[ -d / ] && ls ]; [ $(a) = b ] > f") == ["ls ]", "a", ""]


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    "text",
    [
        "echo " + "{a,b}" * 5000,
        "echo " + "{a," * 3000 + "b" + "}" * 3000,
        "x=(" + "{a,b}" * 30 + "); echo $x",
        "for x in {a,b}{a,b}{a,b}{a,b}{a,b}; do for y in {a,b}{a,b}{a,b}{a,b}{a,b}; do echo $x$y$x$y; done; done",
        "f0(){ a; a; };" + "".join(f"f{n}(){{ f{n - 1}; f{n - 1}; }};" for n in range(1, 40)) + "f39",
        "x=aaaaaaaa;" + "x=$x$x;" * 12 + "echo " + "$x " * 12000,
        "rm" + " b{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}" * 700,
        "a=({1,2,3,4,5,6,7,8}{1,2,3,4,5,6,7,8});" + "a+=(${a[@]});" * 30 + "rm ${a[@]}",
    ],
)
def test_what_multiplies_is_counted_before_it_is_made(text: str) -> None:
    with cpu_at_most(20):
        found = commands(text)
    assert sum(len(one.words) for one in found.items) <= FULL.words
    assert found.stopped or "for" in text
    assert found.unread or "for" in text


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    ("text", "programs"),
    [
        ("git log > x <<< y", ["git"]),
        ("bash 2>/dev/null <<< 'rm x'", ["bash", "rm"]),
        ("for x do git add $x; done", ["git"]),
        ("if (git diff) then ls; fi", ["git", "ls"]),
        ("x=$(git log) 2>/dev/null && ls", ["git", "ls"]),
        ("n=1 2>&1 || ls", ["ls"]),
        ("echo ${x:$i:1}; ls", ["echo", "ls"]),
        ("ls !(x).md; git log", ["ls", "git"]),
        ("cat <<E > x; git log\nx\nE", ["cat", "git"]),
    ],
)
def test_what_the_grammar_misreads_is_read_as_a_whole(text: str, programs: list[str]) -> None:
    found = commands(text)
    assert not found.incomplete
    assert not found.unread
    assert [one.program for one in found.items if one.program] == programs


@pytest.mark.req("X-09")
def test_the_reader_says_which_names_it_could_not_read() -> None:
    assert commands("ls; if true; then 'rm' x").unread >= {"rm"}
    assert "rm" not in commands("ls 'rm'; (cat").unread, "what could be read has been read"
    assert not commands('git commit -m "rm (it\'s"').unread
    assert raw_names("/usr/bin/RM -rf 'a;dd' b\\\nc {fd}>x r''m") >= {"rm", "-rf", "dd", "bc", "fd"}
    assert raw_names("(cat; k delete ns prod; for (const [k, v] of x) found.delete(v)") & {"k", "v"} == {"k"}


@pytest.mark.req("X-09")
@pytest.mark.parametrize("text", ["ls -la", "rm -rf {a,b}", "for f in *.c; do gcc $f; done", "cat <<E\nhello\nE"])
def test_an_ordinary_line_is_light_and_read_once(text: str) -> None:
    assert commands_if_light(text) is commands(text)


@pytest.mark.req("X-09")
@pytest.mark.parametrize("text", ["a|" * 3000, "echo " + "x" * 9000, "echo" + " {a,b}{a,b}" * 100, "ls;" * 100])
def test_a_heavy_line_is_known_before_it_is_read(text: str) -> None:
    assert commands_if_light(text) is None
