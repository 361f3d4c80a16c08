"""What a rule can ask of one command of a command line: the fields of `commands`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from bus.matching.facts.kinds import Destroyed, HostKind, Lost, PackageKind

Touched = Literal[
    "outside_project", "changes_outside_project", "whole_project", "unset_variable", "own_input", "own_process"
]
Texts = tuple[str, ...]


class CommandMatch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Conditions on one command as a shell would run it. Every given condition has to be met; of a list, any entry.

    Flags are compared by meaning: `-rf` is `-r` and `-f`; `--force=x` is `--force`; `-r|--recursive` is either. Path
    patterns are those of `bus.matching.globs`, compared with real paths.
    """

    program: Annotated[
        Texts,
        Meta(
            description="Names of the program, without directory and in lower case; `mkfs*` is a pattern.",
            examples=[["rm", "mkfs*"]],
        ),
    ] = ()
    program_none: Annotated[
        Texts,
        Meta(
            description="Any program except these: `cat`, for example, where only changes matter.",
            examples=[["cat", "less"]],
        ),
    ] = ()
    sets: Annotated[
        Texts,
        Meta(
            description="Patterns for the variables that are set for the command, by `X=y command` or through `env`.",
            examples=[["CLAUDE_CONFIG_DIR=*"]],
        ),
    ] = ()
    sets_none: Annotated[
        Texts,
        Meta(
            description="Patterns that no variable which is set for the command may match.",
            examples=[["RAILS_ENV=test"]],
        ),
    ] = ()
    subcommand: Annotated[
        Texts,
        Meta(
            description="The first words that are not options, with alternatives and patterns for each word. A word "
            "after an unknown option is tried as the option's value and as a word of its own.",
            examples=[["push", "system prune", "delete ns|namespace|ns/*"]],
        ),
    ] = ()
    args: Annotated[
        Texts,
        Meta(
            description="Patterns for any one argument. An unknown part is written `$…`, a literal star `[*]`.",
            examples=[["+*"]],
        ),
    ] = ()
    args_none: Annotated[
        Texts, Meta(description="Patterns that no argument may match.", examples=[["help", "--dry-run"]])
    ] = ()
    line: Annotated[
        Texts,
        Meta(
            description="Regular expressions (RE2) over the program and its arguments, separated by single spaces. An "
            "unknown part is written `$…`.",
            examples=[[r"^terraform .*destroy"]],
        ),
    ] = ()
    text: Annotated[
        Texts,
        Meta(
            description="Regular expressions (RE2) over each argument, and over what the command reads from a pipe, "
            "heredoc or here-string.",
            examples=[[r"(?i)\bshutdown\b"]],
        ),
    ] = ()
    text_none: Annotated[
        Texts,
        Meta(
            description="Regular expressions (RE2) that match no argument, and nothing that the command reads from a pipe, "
            "heredoc or here-string.",
            examples=[[r"connect\(':memory:'\)"]],
        ),
    ] = ()
    destroys: Annotated[
        tuple[Destroyed, ...],
        Meta(
            description="What the SQL in an argument or in the command's input destroys. `rows`: TRUNCATE, or DELETE "
            "without WHERE; `values`: UPDATE without WHERE.",
            examples=[["database", "table"]],
        ),
    ] = ()
    flags_any: Annotated[
        Texts, Meta(description="At least one of these flags is given.", examples=[["-f|--force"]])
    ] = ()
    flags_all: Annotated[
        Texts, Meta(description="Every one of these flags is given.", examples=[["-r|--recursive", "-f|--force"]])
    ] = ()
    flags_none: Annotated[
        Texts, Meta(description="None of these flags is given.", examples=[["--force-with-lease"]])
    ] = ()
    redirects_to: Annotated[
        Texts,
        Meta(description="Path patterns for files that the output is written to.", examples=[["/etc/**"]]),
    ] = ()
    paths: Annotated[
        Texts, Meta(description="Path patterns for any path among the arguments.", examples=[["~/.ssh/**"]])
    ] = ()
    changes: Annotated[
        Texts,
        Meta(
            description="Path patterns for any path that the command writes, replaces or removes, by a redirection or "
            "by what the program does.",
            examples=[["*.pem", ".git/**"]],
        ),
    ] = ()
    touches: Annotated[
        tuple[Touched, ...],
        Meta(
            description="The place that a path among the arguments names; with `changes_outside_project` a path that the "
            "command writes, replaces or removes. `unset_variable`: at `$x/` or `$x/*`, where the line "
            "never sets `x`; `own_input`: a redirection empties the file before the command reads it; `own_process`: an "
            "argument is the number of a process of Fleethook's, on the event's own host.",
            examples=[["outside_project", "whole_project"]],
        ),
    ] = ()
    paths_except: Annotated[
        Texts,
        Meta(
            description="Path patterns that `paths`, `changes` and `touches` leave out, such as caches.",
            examples=[["~/.cache/**", "node_modules/**"]],
        ),
    ] = ()
    reaches: Annotated[
        tuple[HostKind, ...],
        Meta(
            description="The kind of a host among the arguments. `public`: not of this machine or a private network; `plain`: "
            "public and without TLS; `metadata`: a cloud's address for credentials; `collector`: a service that shows what is "
            "sent to it, or a tunnel. A host that only the shell knows is none of them.",
            examples=[["public"]],
        ),
    ] = ()
    installs: Annotated[
        tuple[PackageKind, ...],
        Meta(
            description="The kind of a package that the command installs or runs. `imitation`: the name is one sign away from "
            "a popular one; `unknown_program`: npx, uvx or the like would download and run what is not widely known; "
            "`unpinned_source`: an address or a repository without a commit or a hash.",
            examples=[["imitation"]],
        ),
    ] = ()
    branch: Annotated[
        Texts,
        Meta(
            description="Patterns for the branch that is checked out where a git command works. It is read on the disk of the "
            "event's own host; on another host it is not known, and no pattern matches.",
            examples=[["main", "release/*"]],
        ),
    ] = ()
    loses: Annotated[
        tuple[Lost, ...],
        Meta(
            description="Work that the command would lose. Checked on the disk of the event's own host, after all other "
            "conditions; on another host the work counts as lost. `uncommitted`: changes that git has no copy of; "
            "`untracked`: files that git does not know; `contents`: the content of a file that it empties.",
            examples=[["uncommitted", "untracked"]],
        ),
    ] = ()
    piped_from: Annotated[
        Texts,
        Meta(
            description="Programs in an earlier stage of the same pipeline; for `rm` and its like also those whose output is "
            "a whole argument, as in `rm $(cat list)`.",
            examples=[["find", "ls"]],
        ),
    ] = ()
    code_from: Annotated[
        Texts,
        Meta(
            description="Programs whose output the command runs as code: `curl … | sh`, `bash <(curl …)`.",
            examples=[["curl", "wget"]],
        ),
    ] = ()
    fork_bomb: Annotated[
        bool,
        Meta(description="A function that calls itself, piped into itself or in the background.", examples=[True]),
    ] = False
    prompt: Annotated[
        bool,
        Meta(description="A bare shell, REPL or database client that reads what is typed later.", examples=[True]),
    ] = False
