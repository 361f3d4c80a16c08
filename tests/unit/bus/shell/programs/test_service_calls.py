"""Inline code: requests with DELETE, calls of services' libraries, and lists that are built before they are run."""

from __future__ import annotations

from shlex import quote

import pytest

from bus.shell import commands
from tests.support.rows import rows

pytestmark = pytest.mark.req("X-09")
_NAMESPACE = "kubectl delete namespace x"
_URL = "https://api.github.com/repos/a/b"


def _lines(program: str, code: str) -> list[str]:
    return [one.line for one in commands(f"{program} {quote(code)}").items][1:]


@rows(
    ("program", "code", "expected"),
    [
        ("python3 -c", "import subprocess as s; c=[]; c+=['rm']; c.append('-rf'); c.append('/srv'); s.run(c)", "rm -rf /srv"),
        ("python3 -c", "import os; c = 'rm'; c += ' -rf /srv'; os.system(c)", "rm -rf /srv"),
        ("python3 -c", "import os; os.system('{} -rf {p}'.format('rm', p='/srv'))", "rm -rf /srv"),
        ("python3 -c", "import os; os.system('%s -rf %s' % ('rm', '/srv'))", "rm -rf /srv"),
        ("python3 -c", f"import requests; requests.request('DELETE', '{_URL}')", f"curl -X DELETE {_URL}"),
        ("python3 -c", f"import httpx; httpx.Client().delete('{_URL}')", f"curl -X DELETE {_URL}"),
        ("python3 -c", "c = HTTPSConnection('api.github.com'); c.request('DELETE', '/repos/a/b')", f"curl -X DELETE {_URL}"),
        ("python3 -c", "import docker; docker.from_env().volumes.prune()", "docker volume prune -a -f"),
        ("python3 -c", "import redis; r = redis.Redis(); [r.delete(k) for k in r.scan_iter('*')]", "redis-cli FLUSHDB"),
        (
            "python3 -c",
            f"s = requests.Session()\nfor r in s.get('{_URL}').json():\n s.delete(r['url'])",
            f"curl -X DELETE {_URL}",
        ),
        ("python3 -c", "from app.db import session; session.query(User).delete()", "sqlite3 database DELETE FROM x"),
        ("php -r", '(new MongoDB\\Client)->acme->drop();', "sqlite3 d DROP TABLE x"),
        ("node -e", "const run = (c) => execSync(c, {stdio: 'inherit'}); run('ls'); run('rm -rf /srv')", "rm -rf /srv"),
        (
            "node -e",
            "const r = '/srv'; for (const e of fs.readdirSync(r)) { const p = path.join(r, e); fs.rmSync(p, {recursive: 1}) }",
            "rm -r /srv/$…",
        ),
        ("node -e", "for (const c of ['git fetch x', 'rm -rf /srv']) execSync(c)", "rm -rf /srv"),
        ("node -e", "fs.rmSync(path.join(os.homedir(), 'notes'), {recursive: true})", "rm -r ~/notes"),
        ("node -e", "require('better-sqlite3')('a.db').prepare('DELETE FROM jobs').run()", "sqlite3 database DELETE FROM jobs"),
        ("ruby -e", "Sidekiq::Queue.all.each(&:clear)", "rabbitmqctl purge_queue x"),
        ("ruby -e", "Pathname('/srv').children.each(&:rmtree)", "rm -r /srv/$…"),
        ("php -r", 'pg_query(pg_connect("dbname=app"), "TRUNCATE users");', "sqlite3 database TRUNCATE users"),
        ("node -e", "const run = promisify(require('child_process').exec); run('rm -rf /srv')", "rm -rf /srv"),
        ("node -e", "promisify(require('child_process').exec)('rm -rf /srv')", "rm -rf /srv"),
        ("python3 -c", "import docker; [c.remove() for c in docker.from_env().containers.list()]", "docker system prune -a -f"),
        ("python3 -c", f"r = Request('{_URL}'); r.get_method = lambda: 'DELETE'; urlopen(r)", f"curl -X DELETE {_URL}"),
        ("ruby -e", "Net::HTTP.start('api.github.com', 443) { |h| h.delete('/x') }", "curl -X DELETE https://api.github.com/"),
        ("perl -e", "use File::Path; remove_tree($ENV{HOME}, {keep_root => 1})", "rm -r ~"),
        ("node -e", "['/srv', '/opt'].forEach(d => require('fs').rmSync(d, {recursive: true}))", "rm -r /srv /opt"),
        ("python3 -c", "from kubernetes import client as c; c.CoreV1Api().delete_namespace('prod')", _NAMESPACE),
        ("node -e", "const a=['rm']; a.push('-rf', '/srv'); spawnSync(a[0], a.slice(1))", "rm -rf /srv"),
        ("node -e", "const a=['rm','-rf','/srv']; require('child_process').execSync(a.join(' '))", "rm -rf /srv"),
        ("node -e", f"const u='{_URL}'; fetch(u, {{method: 'delete'}})", f"curl -X DELETE {_URL}"),
        ("ruby -e", "c = []; c << 'rm'; c << '-rf /srv'; system(c.join(' '))", "rm -rf /srv"),
        ("ruby -e", f"Net::HTTP::Delete.new(URI('{_URL}'))", f"curl -X DELETE {_URL}"),
        ("perl -e", "my @a = qw(rm -rf /srv); system(join(' ', @a))", "rm -rf /srv"),
        ("php -r", "$c = 'rm'; $c .= ' -rf /srv'; exec($c);", "rm -rf /srv"),
        ("perl -i -ne '' a.txt #", "", "truncate -s 0 a.txt"),
        ("gawk -i inplace '{ x = 1 }' a.txt #", "", "truncate -s 0 a.txt"),
        ("expect -c", 'spawn ssh web; send "rm -rf /srv\\r"', "rm -rf /srv"),
    ],
)  # fmt: skip
def test_the_command_that_does_the_same_is_found(program: str, code: str, expected: str) -> None:
    assert expected in _lines(program, code)


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("python3 -c", "import sqlalchemy; session.delete(thing)"),
        ("python3 -c", "d = {}; d.update(a=1); print('{} {}'.format(1, 2))"),
        ("python3 -c", "import docker; print(docker.from_env().volumes.list())"),
        ("node -e", "const d = new Map(); d.delete('x'); fetch('https://api.github.com/zen')"),
        ("node -e", "document.querySelector('a').remove()"),
        ("perl -i -pe 's/a/b/' a.txt #", ""),
        ("perl -ni -e 'print if /x/' a.txt #", ""),
        ("awk -i inplace '/x/' a.txt #", ""),
    ],
)
def test_harmless_code_is_no_command(program: str, code: str) -> None:
    assert _lines(program, code) == []


def test_the_files_that_a_search_lists_are_named_so() -> None:
    def files(line: str) -> str:
        return commands(line).items[-1].line

    assert files("rg -l x src | xargs rm") == "rm src/.found-by-search/$…"
    assert files("rm $(git ls-files)") == "rm ./.found-by-search/$…"
    assert files("grep -rl x | while read f; do rm $f; done") == "rm ./.found-by-search/$…"
    assert files("git ls-files -d | xargs rm") == "rm $…"
    assert files("rg x src | xargs rm") == "rm $…"


def test_what_a_call_equals_is_not_read_as_code_again() -> None:
    """`db.dropDatabase()` equals a command with code in it: read again and again, it would take the whole budget."""
    for line in ("mongosh app --eval 'db.dropDatabase()'", "echo 'db.x.deleteMany({})' | mongosh app"):
        assert len(commands(line).items) <= 2
