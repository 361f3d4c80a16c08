"""Issue 10, A3: repositories that a line clones and then runs scripts of."""

from __future__ import annotations

import pytest

from bus.shell import commands

CLONE = "git clone --depth 1 https://github.com/foo/bar.git"


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    "line",
    [
        f"{CLONE} && bash bar/install.sh",
        f"{CLONE} /tmp/b && cd /tmp/b && sh scripts/x",
        "git -C /tmp clone git@github.com:foo/bar && python3 /tmp/bar/setup.py install",
        f"{CLONE} && sudo bar/bin/tool",
        f"{CLONE} && cd bar && make -j8 install",
        f"{CLONE} && source bar/env.sh",
        "gh repo clone foo/bar -- --depth 1; cd bar && ./bootstrap",
        "svn co https://example.com/bar; bar/setup.sh",
    ],
)
def test_a_script_of_a_cloned_repository_is_code_that_nobody_read(line: str) -> None:
    assert ("clone",) in [one.code_from for one in commands(line).items]


@pytest.mark.parametrize(
    "line",
    [
        f"{CLONE} && cd bar && npm ci && npm test && make",
        f"{CLONE} && cat bar/install.sh && ls bar",
        f"{CLONE} /tmp/b && bash install.sh",
        f"bash bar/install.sh && {CLONE}",
        f"{CLONE} && cd bar && python -m pytest && ./gradlew build",
        "git commit -m 'clone it' && bash bar/install.sh",
    ],
)
def test_a_build_a_look_and_other_scripts_are_not(line: str) -> None:
    assert ("clone",) not in [one.code_from for one in commands(line).items]
