"""Issue 10, A3: the files that programs write by an option or an operand."""

from __future__ import annotations

import pytest

from bus.shell import commands
from bus.shell.command_paths import changed
from tests.support.rows import rows

WRITES = {
    "wget -P /opt/a https://example.com/x.tgz": "/opt/a/downloaded",
    "curl --output-dir /opt/a -O https://example.com/x": "/opt/a/downloaded",
    "cd /srv && tar xf a.tar": "unpacked",
    "pg_dump app -f /backup/app.sql": "/backup/app.sql",
    "GOBIN=/opt/bin go install ./cmd/app": "/opt/bin/built",
    "make install PREFIX=/opt/a": "/opt/a/unpacked",
    "zip -r /opt/a.zip .": "/opt/a.zip",
    "python3 -m venv /opt/venv": "/opt/venv/unpacked",
    "aws s3 cp s3://bucket/a /srv/a": "/srv/a",
    "ssh-keygen -t ed25519 -f /opt/key -N ''": "/opt/key",
    "sort -uo F a": "F",
    "sort --output=F a": "F",
    "find . -name a -fprintf F %p": "F",
    "uniq a F": "F",
    "openssl enc -in a -out F": "F",
    "xxd -r a F": "F",
    "gawk -i inplace 1 F": "F",
    "awk '{print > \"F\"}' a": "F",
    "sed 's/a/b/w F' a": "F",
    "git diff --output=F": "F",
    "git archive -o F HEAD": "F",
    "curl -fsSLo F http://a": "F",
    "tar xf a.tar -C F": "F/unpacked",
    "unzip a.zip -d F": "F/unpacked",
    "docker cp c:/a F": "F",
    "patch F a.diff": "F",
    "script -c ls F": "F",
}
WRITES_NOT = [
    "ssh-keygen -l -f F",
    "wget --spider https://example.com/F",
    "aws s3 cp F s3://bucket/a",
    "python3 -m pytest F",
    "make -n F",
    "sort a",
    "tar cf a.tar -C F b",
    "unzip -l a.zip -d F",
    "docker cp a c:/F",
    "yq .x F",
    "uniq -c F",
]


@pytest.mark.req("X-09")
@rows("line", WRITES)
def test_what_is_written_is_known(line: str) -> None:
    assert WRITES[line] in [path for one in commands(line).items for path in changed(one)]


@pytest.mark.parametrize("line", WRITES_NOT)
def test_what_is_only_read_is_not(line: str) -> None:
    assert [path for one in commands(line).items for path in changed(one)] == []


def test_the_times_option_of_rsync_takes_no_value() -> None:
    assert changed(commands("rsync -rlt a F").items[0]) == ("F", "F/a")
