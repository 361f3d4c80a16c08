"""Issue 10, A3: files that the line itself writes are read where a later command, a timer or a shell's start runs them."""

from __future__ import annotations

import pytest

from bus.shell import commands
from bus.shell.programs.made_files import recipe_script, unit_property
from tests.support.rows import rows

RUNS = [
    "printf 'a:\\n\\trm x\\n' > Makefile && make",
    "printf 'a:\\n\\trm x\\n' > m.mk && make -f m.mk a",
    "printf 'a:\\n\\trm x\\n' > sub/Makefile && make -C sub",
    "make -f <(printf 'a:\\n\\trm x\\n')",
    "make --eval=$'a:\\n\\t-rm x' a",
    "cat > ~/.config/systemd/user/a.service <<'EOF'\n[Service]\nExecStart=-/bin/rm x\nEOF",
    "echo '0 3 * * * rm x' > jobs.txt && crontab jobs.txt",
    "echo 'rm x' > job.sh; at -f job.sh now",
    "echo 'rm x' >> ~/.bashrc",
    "echo 'rm x' | tee -a ~/.zshrc",
    "echo 'rm x' > a.sh; cat a.sh | sh",
    "echo 'rm x' > a.sh; ssh h 'bash -s' < a.sh",
    "echo 'rm x' > a.sh; sudo sh < a.sh",
    "BASH_ENV=<(echo 'rm x') bash -c :",
]
RUNS_NOT = [
    "printf 'a:\\n\\trm x\\n' > Makefile",
    "printf 'a:\\n\\trm x\\n' > Makefile && make -f other.mk",
    "echo 'rm x' > notes.txt",
    "echo 'rm x' > notes.txt; wc -l < notes.txt; ssh h 'cat > n' < notes.txt",
    "cat > a.service <<'EOF'\n[Service]\n# rm x\nEnvironment=A=rm\nEOF",
]


@pytest.mark.req("X-09")
@rows("line", RUNS)
def test_what_a_made_file_runs_is_found(line: str) -> None:
    assert ("rm", ("x",)) in [(one.program, one.words) for one in commands(line).items]


@pytest.mark.parametrize("line", RUNS_NOT)
def test_a_file_that_nothing_runs_is_not_read(line: str) -> None:
    assert "rm" not in [one.program for one in commands(line).items]


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    "line",
    [
        "echo 'DROP TABLE t;' > q.sql && psql -f q.sql",
        "echo 'DROP TABLE t;' > ./q.sql && psql --file=q.sql",
        "cat > q.sql <<'EOF'\nDROP TABLE t;\nEOF\nmysql shop < q.sql",
        "echo 'DROP TABLE t;' > q.sql; psql -c '\\i q.sql'",
        "echo 'DROP TABLE t;' > q.sql; sqlite3 a.db '.read q.sql'",
        "echo 'DROP TABLE t;' > q.sql; docker exec -i db psql < q.sql",
    ],
)
def test_an_sql_file_of_the_line_is_given_to_its_client(line: str) -> None:
    texts = [text for one in commands(line).items if one.program in ("psql", "mysql", "sqlite3") for text in one.words]
    assert any("DROP TABLE t;" in text for text in texts)


@pytest.mark.parametrize(
    "line",
    [
        "echo 'INSERT INTO t VALUES (1);' > i.sql; psql app < i.sql",
        "echo '\\i q.sql' > q.sql; psql -f q.sql",
        "printf 'all:\\n\\tmake lint\\nlint:\\n\\truff check\\n' > Makefile && make",
        "echo '* * * * * crontab jobs' > jobs; crontab jobs",
    ],
)
def test_a_file_that_names_itself_is_read_to_a_small_depth(line: str) -> None:
    found = commands(line)
    assert not found.incomplete
    assert len(found.items) < 12


def test_parts_of_such_files() -> None:
    assert recipe_script("a: b ; @rm x\n\t-rm $$y\nc = 1") == "rm $y\nrm x"
    assert unit_property("ExecStartPre=-/bin/rm x") == "/bin/rm x"
    assert unit_property("MemoryMax=2G") == "MemoryMax=2G"
