"""The doctor's report (issue 11, section 3): groups, findings by weight, a summary, one line a group at every width."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from workers.admin.doctor import Check, State
from workers.cli.common import Context
from workers.cli.screens import columns, doctor

LONG = "the folder /srv/app has not been shown to Gemini CLI yet, and without its trust no hook runs there at all"
CHECKS = (
    Check(id="python", status="ok", what="Python 3.12.1 at /usr/bin/python3", brief="Python 3.12.1"),
    Check(id="server", status="fail", what="redis cannot be reached", fix="fleethook up"),
    Check(id="memory", status="unknown", what="the server cannot be asked"),
    Check(id="evaluator", status="unknown", what="the server cannot be asked"),
    Check(id="gemini-installed", status="ok", what="Gemini CLI: 7 events", agent="gemini", brief="7 events (user)"),
    Check(
        id="gemini-trust", status="warn", what=LONG, fix="start gemini, or `fleethook doctor --live`", agent="gemini"
    ),
    Check(id="gemini-answers", status="warn", what="gemini: stale", fix="x", agent="gemini", repair="install"),
)

Report = Callable[..., list[str]]


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Report:
    """The lines of a report in a terminal of so many columns."""

    def written(*checks: Check, width: int = 80, verbose: bool = False, colour: bool = False) -> list[str]:
        for module in (doctor, columns):
            monkeypatch.setattr(module, "terminal_width", lambda: width)
        doctor.show_report(Context(colour=colour), checks, verbose=verbose)
        return capsys.readouterr().out.splitlines()

    return written


def test_groups_first_then_findings_the_worst_last_and_a_summary(report: Report) -> None:
    """What could not be seen for one reason is one finding; what an agent's group says already is not repeated."""
    assert report(*CHECKS) == [
        "   CHECKED       PASSED  IN ORDER",
        "✓  This machine  1 of 1  Python 3.12.1",
        "✗  Bus           0 of 3",
        "!  Gemini CLI    1 of 3  7 events (user)",
        "",
        "?  Bus           memory, evaluator: the server cannot be asked",
        "",
        "!  Gemini CLI    the folder /srv/app has not been shown to Gemini CLI yet, and",
        "                 without its trust no hook runs there at all",
        "                 → start gemini, or `fleethook doctor --live`",
        "!  Gemini CLI    stale",
        "                 → x",
        "",
        "✗  Bus           redis cannot be reached",
        "                 → fleethook up",
        "",
        "fleethook doctor --fix repairs 1 of these.",
        "",
        "1 problem, 2 warnings, 2 not seen, 2 checks passed",
    ]


@pytest.mark.parametrize("width", [60, 80, 110, 170])
@pytest.mark.parametrize("verbose", [True, False])
def test_no_line_is_longer_than_the_terminal_and_a_pipe_gets_whole_findings(
    report: Report, width: int, verbose: bool
) -> None:
    assert all(cell_len(line) <= width for line in report(*CHECKS, width=width, verbose=verbose))
    assert f"!  Gemini CLI    {LONG}" in report(*CHECKS, width=columns.ENDLESS, verbose=verbose)


AWAY = (
    Check(id="server", status="fail", what="redis cannot be reached", fix="fleethook up"),
    Check(id="memory", status="unknown", what="the server cannot be asked", cause="server"),
    Check(id="evaluator", status="unknown", what="the server cannot be asked", cause="server"),
    Check(id="hooks", status="unknown", what="the server cannot be asked", cause="server"),
    Check(id="claude-rights", status="unknown", what="claude: rights", agent="claude", cause="server"),
)


def test_what_a_failed_check_hides_is_below_it_and_is_no_problem_of_its_own(report: Report) -> None:
    assert report(*AWAY)[4:] == [
        "",
        "✗  Bus          redis cannot be reached",
        "                → fleethook up",
        "                not checked because of it: Bus 2, Fleet 1, Claude Code 1 (-v",
        "                names them)",
        "",
        "1 problem, 4 not seen",
    ]
    text = "\n".join(report(*AWAY, verbose=True, width=170))
    assert "not checked because of it: Bus: memory, evaluator; Fleet: hooks; Claude Code: claude-rights" in text


def test_a_groups_line_says_how_many_more_are_in_order_and_cuts_no_name(report: Report) -> None:
    many = [Check(id=f"c{number}", status="ok", what="well", brief=f"worker-{number}") for number in range(9)]
    assert report(*many)[1] == "✓  This machine  9 of 9  worker-0, worker-1, worker-2, worker-3 and 5 more"
    assert report(*many, width=columns.ENDLESS)[1].endswith("worker-7, worker-8")


def test_colours_change_no_text(report: Report) -> None:
    coloured = "\n".join(report(*CHECKS, colour=True))
    assert "\x1b[31m✗\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured).splitlines() == report(*CHECKS)


def test_verbose_names_every_check_that_passed(report: Report) -> None:
    lines = report(*CHECKS, verbose=True)
    assert lines[:2] == ["✓  This machine  1 of 1", "   python     Python 3.12.1 at /usr/bin/python3"]
    assert "   installed  7 events" in lines


@pytest.mark.parametrize(("status", "sign"), [("ok", "✓"), ("unknown", "?"), ("warn", "!"), ("fail", "✗")])
def test_a_group_has_the_sign_of_its_worst_check(report: Report, status: State, sign: str) -> None:
    other = Check(id="modes", status=status, what="x")
    assert report(CHECKS[0], other)[1].startswith(f"{sign}  This machine")


def test_a_path_below_home_is_short_and_a_command_stays_on_one_line(
    report: Report, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    command = "fleethook config check " + "/".join([str(tmp_path), *["folder"] * 12])
    text = f"{tmp_path}/a.yaml: wrong, and not {tmp_path}2/b or /x{tmp_path}/c"
    lines = report(Check(id="user-file", status="fail", what=text, fix=command))
    assert "~/a.yaml: wrong, and not" in lines[3]
    assert f"{tmp_path}2/b" in " ".join(lines)
    assert f"/x{tmp_path}/c" in " ".join(lines)
    assert any(line.endswith(f"→ {command.replace(str(tmp_path), '~')}") for line in lines)
