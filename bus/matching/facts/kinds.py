"""The kinds of hosts, packages, secrets, lost work and destroyed data that rules name.

What finds these things reads shell commands, and is in other modules. So a process that only holds rules starts without it.
"""

from __future__ import annotations

from typing import Literal

HostKind = Literal["public", "plain", "metadata", "collector"]
"""`public`: no address of this machine or a private network. `plain`: a public one, reached without TLS. `metadata`: a cloud's
address for credentials of the machine. `collector`: a service that shows everybody what is sent to it, or a tunnel."""

PackageKind = Literal["imitation", "unknown_program", "unpinned_source"]
"""`imitation`: a name that differs from that of a popular package by one sign. `unknown_program`: a package that npx, uvx and
their like download and run, and that is not widely known. `unpinned_source`: code from an address or a repository, without the
commit or the hash that says which code it is."""

SecretClass = Literal["known", "random"]
"""`known`: a key or token of a known format. `random`: a value beside a name such as `password` that looks random."""

Lost = Literal["uncommitted", "untracked", "contents"]
"""The kinds of work: changes that git has no copy of; untracked files; the content of a file that the command empties."""

Destroyed = Literal["database", "table", "column", "rows", "values"]
"""`rows` by TRUNCATE, or by DELETE without WHERE; `values` by UPDATE without WHERE."""
