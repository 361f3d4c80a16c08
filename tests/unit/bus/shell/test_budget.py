"""The limits of what is read: nothing behind one passes unseen."""

from __future__ import annotations

import pytest

from bus.events import Event
from bus.matching.rules import CommandMatch, Rule, judge
from tests.support.rows import rows

FILLERS = [f"/tmp/{number}" for number in range(600)]


@pytest.mark.req("X-09")
@rows(
    "command",
    [
        "python3 - <<'E'\nimport shutil\n" + "x = 1\n" * 3000 + "shutil.rmtree('/etc')\nE",
        "python3 - <<'E'\nimport shutil\n" + "x = 1\n" * 12_000 + "shutil.rmtree('/etc')\nE",
        "python3 - <<'E'\nimport shutil\n" + "open('/tmp/a', 'w')\n" * 600 + "shutil.rmtree('/etc')\nE",
        f'python3 -c "import shutil\nfor x in {[*FILLERS, "/etc"]}: shutil.rmtree(x)"',
        "perl -e '" + "$x=1;" * 15_000 + 'system("rm -rf /etc")' + "'",
        "perl -e '" + 'unlink("/tmp/a");' * 600 + 'system("rm -rf /etc")' + "'",
        "node - <<'E'\n" + "x=1;\n" * 15_000 + "fs.rmSync('/etc', {recursive: true})\nE",
        "ruby -e '" + 'system("ls a");' * 600 + "`rm -rf /etc`'",
        f"parallel rm -rf ::: {' '.join(FILLERS)} /etc",
        f"printf '%s\\n' {' '.join(FILLERS)} /etc | xargs rm -rf",
        f"printf '%s\\0' {' '.join(FILLERS)} /etc | xargs -0 rm -rf",
        "while read x; do rm -rf $x; done <<E\n" + "\n".join(FILLERS) + "\n/etc\nE",
        "mapfile -t a <<E\n" + "\n".join(FILLERS) + '\n/etc\nE\nrm -rf "${a[@]}"',
        "; ".join(f"echo {number} > f{number}" for number in range(600)) + "; echo 'rm -rf /etc' > z; sh z",
        "pwsh -c '" + "Write-Output a; " * 1200 + "Remove-Item -Recurse /etc'",
        'bash -c "' + "echo a b c\n" * 9000 + 'rm -rf /etc"',
        "s='" + "echo a b c\n" * 9000 + 'rm -rf /etc\'; eval "$s"',
        "cat > x.sh <<'E'\n" + "echo a b c\n" * 9000 + "rm -rf /etc\nE\nsh x.sh",
        "a=/etc; " + "a=$a$a; " * 18 + "rm -rf $a",
        "rm -rf {" + "a," * 40_000 + "/etc}",
        "python3 -c 'import os; os.system(\"" + "echo a; " * 1500 + "rm -rf /etc\")'",
        "pwsh -Command '\"" + "$(" * 50 + "Remove-Item -Recurse -Force /etc" + ")" * 50 + "\"'",
        'powershell -Command "' + "Get-ChildItem | " * 5000 + 'Remove-Item -Recurse -Force /etc"',
    ],
    ids=range(23),
)
def test_nothing_behind_a_limit_passes_unseen(command: str) -> None:
    """Issue 10, item A1: over the budget is not "no opinion", also in code and in lists of arguments."""
    rule = Rule(commands=(CommandMatch(program=("rm",), touches=("outside_project",)),))
    assert judge(rule, Event(type="tool:pre_execute", tool="bash", input={"command": command})) is not None


@pytest.mark.req("X-09")
def test_a_statement_behind_64_kib_of_others_is_read() -> None:
    rule = Rule(commands=(CommandMatch(program=("psql",), destroys=("table",)),))
    line = "psql -c '" + "SELECT 1; " * 20_000 + "DROP TABLE users'"
    assert judge(rule, Event(type="tool:pre_execute", tool="bash", input={"command": line})) is not None


@pytest.mark.req("X-09")
def test_a_line_of_megabytes_is_not_searched_by_each_rule() -> None:
    """Each search took 0.2 s in 10 MB; the agent's deadline passed before the rules were through, and so did the line."""
    event = Event(type="tool:pre_execute", tool="bash", input={"command": "echo " + "x" * 1_100_000})
    match = judge(Rule(command=("never in this line",)), event)
    assert match is not None
    assert match.doubt == "too large to be checked; split it"
    assert judge(Rule(command=("never in this line",), decision="allow"), event) is None
    few = Rule(command=("never in this line",), commands=(CommandMatch(program=("terraform",)),))
    assert judge(few, event) is None, "its program is not named"
