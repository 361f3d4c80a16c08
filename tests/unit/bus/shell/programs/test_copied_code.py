"""Issue 10, A3: files that a line copies from another machine or a store and then runs."""

from __future__ import annotations

import pytest

from bus.shell import commands
from tests.support.waiting import cpu_at_most


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    "line",
    [
        "scp host:x.sh . && sh x.sh",
        "scp -P 2222 -i key dev@host:/opt/a.py b.py; python3 b.py",
        "scp host:/opt/x /tmp/ && chmod +x /tmp/x && /tmp/x --yes",
        "sftp host:tools/x.sh && bash x.sh",
        "rsync -a host:tools/ ./tools/ && ./tools/run.sh",
        "aws s3 cp s3://bucket/x.sh . && sh ./x.sh",
        "aws --profile p s3 cp s3://bucket/x.sh - | bash",
        "gsutil cp gs://bucket/x.py /tmp/x.py && python3 /tmp/x.py",
        "rclone copy remote:bin/x.sh . && sh x.sh",
        "kubectl cp ns/pod:/x.sh ./x.sh && sh x.sh",
        "gh release download v1 -R a/b -p install.sh && bash install.sh",
        "gh gist view -r 1234abcd > x.sh && sh x.sh",
        "ssh host cat /srv/x.sh | bash",
        "lftp -c 'get ftp://host/x.sh'; sh x.sh",
    ],
)
def test_a_copied_file_that_runs_is_code_that_nobody_read(line: str) -> None:
    assert ("clone",) in [one.code_from for one in commands(line).items]


@pytest.mark.parametrize(
    "line",
    [
        "scp host:app.log . && python3 analyze.py app.log",
        "scp x.sh host:/tmp/ && sh x.sh",
        "rsync -av ./src/ host:/srv/app/ && sh src/check.sh",
        "aws s3 sync s3://bucket/fixtures ./fixtures && sh run.sh",
        "kubectl cp ./x.sh ns/pod:/tmp/x.sh && sh x.sh",
        "gh release download v1 -p tool.zip && sh scripts/test.sh",
        'eval "$(gh completion -s bash)"',
        'eval "$(aws configure export-credentials --format env)"',
    ],
)
def test_what_goes_elsewhere_and_other_scripts_are_not(line: str) -> None:
    assert ("clone",) not in [one.code_from for one in commands(line).items]


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    ("text", "found"),
    [("az " * 20000, False), ("scp a:b . ; sh b ; " * 3000, True), ("lftp get " * 7000 + "; sh x", False)],
)
def test_hostile_lines_take_bounded_time(text: str, found: bool) -> None:
    with cpu_at_most(20):
        items = commands(text).items
    assert (("clone",) in [one.code_from for one in items]) == found
