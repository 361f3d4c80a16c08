"""Issue 10, A3: files of code that the line writes and runs, and calls whose arguments no literal in the call says."""

from __future__ import annotations

import pytest

from bus.shell import commands
from bus.shell.programs.code_places import places_in
from tests.support.rows import rows


def written(name: str, code: str, run: str) -> str:
    return f"cat > {name} <<'EOF'\n{code}\nEOF\n{run}"


GO = 'package main\nimport "os"\nfunc main() { d := "/etc"; os.RemoveAll(d) }'
RUST = 'use std::fs;\nfn main() { for d in ["/etc"] { fs::remove_dir_all(d).unwrap(); } }'
JAVA = (
    'class W { public static void main(String[] a) { Files.walk(Path.of("/etc")).forEach(p -> p.toFile().delete()); } }'
)
C = '#include <stdlib.h>\nint main(void) { return system("rm -r /etc"); }'
RUNS = [
    written("x.go", GO, "go run x.go"),
    written("cmd/x/main.go", GO, "go run ./cmd/x"),
    written("x.rs", RUST, "rustc x.rs && ./x"),
    written("src/main.rs", RUST, "cargo run --release"),
    written("W.java", JAVA, "java W.java"),
    written("W.java", JAVA, "javac W.java && java W"),
    written("x.c", C, "gcc x.c -o x && ./x"),
    written(
        "x.ts", 'const d: string[] = ["/etc"];\nd.map((one) => rmSync(one, { recursive: true }));', "npx ts-node x.ts"
    ),
    written("x.ts", 'Deno.removeSync("/etc", { recursive: true })', "deno run -A x.ts"),
    written("x.swift", 'try FileManager.default.removeItem(atPath: "/etc")', "swift x.swift"),
    written("x.bat", "rmdir /s /q C:\\etc", "cmd /c x.bat").replace("C:\\etc", "/etc"),
    written("Makefile", "D = /etc\nall:\n\trm -r $(D)", "make"),
    written("justfile", "d := '/etc'\nnuke:\n    rm -r {{d}}", "just nuke"),
    written("Taskfile.yml", "tasks:\n  x:\n    cmds:\n      - rm -r /etc", "task x"),
    written("play.yml", "- hosts: all\n  tasks:\n    - shell: rm -r /etc", "ansible-playbook -i prod play.yml"),
    written("play.yml", "- hosts: all\n  tasks:\n    - file: path=/etc state=absent", "ansible-playbook play.yml"),
    written("x.awk", '{ system("rm -r /etc") }', "awk -f x.awk list.txt"),
    written("conftest.py", "import shutil\nshutil.rmtree('/etc')", "pytest -q"),
    written("noxfile.py", "import nox\ndef x(s): s.run('rm', '-r', '/etc')", "nox -s x"),
    written("main.tf", 'provisioner "local-exec" { command = "rm -r /etc" }', "terraform apply -auto-approve"),
    written("x.cs", 'new ProcessStartInfo { FileName = "rm", Arguments = "-r /etc" }', "mcs x.cs && mono x.exe"),
    written("x.scala", 'Seq("/etc").foreach(d => s"rm -r $d".!) // sys.process', "scala-cli run x.scala"),
    written("lib/tasks/x.rake", "task :x do\n  sh 'rm -r /etc'\nend", "bundle exec rake x"),
    "printf '%s\\n' 'import shutil' 'shutil.rmtree(\"/etc\")' > x.py; uv run x.py",
]
RUNS_NOT = [
    written("x.go", GO, "gofmt -w x.go"),
    written("x.go", GO, "git add x.go"),
    written("x.rs", RUST, "go run y.go"),
    written("x.rs", "fn main() { let mut v = vec![1]; v.remove(0); }", "rustc x.rs && ./x"),
    written("x.awk", '{ system("rm -r /etc") }', "awk '{ print }' x.awk"),
    written("justfile", "all:\n    cargo build", "just all"),
    written("x.py", "import shutil\nshutil.rmtree('/etc')", "ruff check x.py"),
]


@pytest.mark.req("X-09")
@rows("line", RUNS)
def test_what_a_written_file_of_code_deletes_is_found(line: str) -> None:
    deleted = [one.words for one in commands(line).items if one.program == "rm"]
    assert any(words[-1] == "/etc" for words in deleted), deleted


@pytest.mark.parametrize("line", RUNS_NOT)
def test_a_file_of_code_that_is_only_looked_at_is_not_read(line: str) -> None:
    assert "rm" not in [one.program for one in commands(line).items]


UNSAID = [
    ("node -e \"['/opt', '/srv'].filter(Boolean).map(d => d + '/').forEach(d => rimraf(d))\"", "rm -r /opt /srv"),
    ("node -e \"[['rm', ['-rf', '/etc']]].forEach(([c, a]) => spawnSync(c, a))\"", "rm -rf /etc"),
    ('perl -e \'open(my $p, "|-", "sh"); print $p "rm -r /etc\\n"\'', "rm -r /etc"),
    ('perl -e \'my @c = ("rm", "-r", glob("/etc/*")); exec @c\'', "rm -r /etc/*"),
    ('ruby -e \'IO.popen("bash", "w") { |io| io.puts "rm -r /etc" }\'', "rm -r /etc"),
    ('php -r \'$p = popen("bash", "w"); fwrite($p, "rm -r /etc\\n");\'', "rm -r /etc"),
    ("python3 -c 'import shutil, conf; D = \"/etc\"; shutil.rmtree(conf.pick())'", "rm -r /etc"),
    ('ruby -e \'d = Dir["/etc/*"].select { |x| ok(x) }; system("sudo", "rm", "-r", *d)\'', "rm -r /etc/*"),
    ('python3 -c \'import json, os; p = json.loads("[[]]"); t.extractall("/etc")\'', "tar -x -C /etc"),
    ("find /srv -name '*.pem' | perl -ne 'chomp; unlink'", "rm /srv/$…"),
    ('perl -e \'my $h = $ENV{HOME}; system("rm", "-r", map { "$h/$_" } @all)\'', "rm -r ~/$…"),
    (
        'python3 -c \'import os, y; c = y.load("""\n- /etc\n- /srv\n""")\nfor d in c: os.system(f"rm -rf {d}")\'',
        "rm -r /etc /srv",
    ),
    ("python3 -c 'import os; [os.kill(int(p), 9) for p in os.listdir(\"/proc\")]'", "kill -9 -1"),
]


@pytest.mark.req("X-09")
@rows(("line", "expected"), UNSAID)
def test_a_call_that_names_nothing_counts_for_what_its_code_names(line: str, expected: str) -> None:
    assert expected in [one.line for one in commands(line).items]


WINDOWS = [
    "[IO.Directory]::GetFiles('C:\\etc') | % { [IO.File]::Delete($_) }",
    "$d = Get-ChildItem C:\\etc -Directory\nforeach ($x in $d) { Remove-Item $x.FullName -Recurse }",
    "$d = [IO.Directory]::GetDirectories('C:\\etc')\nforeach ($x in $d) { [IO.Directory]::Delete($x, $true) }",
    "([IO.DirectoryInfo]'C:\\etc').GetDirectories().ForEach({ $_.Delete($true) })",
    "$r = [Environment]::GetFolderPath('Windows')\n[IO.Directory]::Delete($r, $true)",
    "$l = @(\n  'C:\\etc'\n  'D:\\x'\n)\n$l | % { Get-ChildItem $_ -Recurse | Remove-Item -Force }",
    "$l = [Collections.ArrayList]::new(); $l.Add('C:\\etc'); foreach ($x in $l) { Remove-Item $x -Recurse }",
    "Move-Item C:\\etc $env:TEMP\\x; Remove-Item $env:TEMP\\x -Recurse",
]


@pytest.mark.req("X-09")
@pytest.mark.parametrize("script", WINDOWS)
def test_what_calls_of_net_delete_in_pipes_and_loops_is_found(script: str) -> None:
    quoted = script.replace("'", "''").replace("''", "'\\''")
    deleted = [word for one in commands(f"pwsh -Command '{quoted}'").items if one.program == "rm" for word in one.words]
    assert any(word.startswith(("/c/etc", "/c/Windows")) for word in deleted), deleted


def test_paths_that_code_only_reads_or_prints_are_no_places() -> None:
    code = (
        "readFileSync('/etc/hosts'); console.log('/etc/x'); if (p.startsWith('/srv')) unlink(p); exec('/usr/bin/env')"
    )
    assert places_in(code) == []
    assert places_in("import tempfile; D = '/etc'") == []


@pytest.mark.req("X-09")
def test_a_script_that_is_fetched_written_and_run_is_code_from_the_network() -> None:
    code = "import requests, subprocess\nopen('x', 'w').write(requests.get(u).text)\nsubprocess.run(['bash', p.name])"
    assert ("curl",) in [one.code_from for one in commands(f"python3 - <<'EOF'\n{code}\nEOF").items]
