"""docs/hooks.md and docs/endpoints.md: every field of fleethook.yaml."""

from __future__ import annotations

from typing import Final

from bus.config.endpoint_entry import EndpointEntry
from bus.config.file_types import FileFormat, GuardException, GuardSettings, HookEntry, ImportEntry, Network
from bus.config.hook_test_entry import HookTestEntry, HookTestEvent
from bus.config.model_entry import ModelEntry, ModelPrice
from bus.config.plugin_entry import PluginEntry
from bus.hooks import HttpCall, ModelPrompt, OldSecret
from bus.hooksets.hookfile import guard_packs
from bus.matching.command_match import CommandMatch
from bus.matching.rules import Rule
from bus.pacing import Batch
from bus.verdicts import Hold
from docs.reference.fields import field_table

HOOK_LINKS: Final = {
    "ExactCall": "unless",
    "GuardException": "unless",
    "Hold": "hold",
    "HttpCall": "http",
    "OldSecret": "old_secrets",
    "ModelPrompt": "prompt-and-agent",
    "Rule": "rule",
    "CommandMatch": "commands",
}
MODEL_LINKS: Final = {"ModelPrice": "prices"}
TEST_LINKS: Final = {"HookTestEvent": "event"}
ENDPOINT_LINKS: Final = {"OldSecret": "old_secrets", "Batch": "batch"}

_TOP_TYPES: Final = {
    "hooks": "list of [mappings](#hooks)",
    "endpoints": "list of [mappings](endpoints.md#endpoints)",
    "import": "list of texts or [mappings](#import)",
    "guards": "[mapping](#guards)",
    "plugins": "[mapping](#plugins)",
    "workflows": "list of [mappings](workflow-fields.md#workflows)",
    "network": "[mapping](endpoints.md#network)",
    "model": "[mapping](#model)",
    "tests": "list of [mappings](#tests)",
    "settings": "[mapping](settings.md)",
}

HOOKS_EXAMPLE: Final = """\
# fleethook.yaml
version: 1
on_failure: ask

hooks:
  - id: no-download-into-shell
    description: No downloads into a shell.
    on: tool:pre_execute
    rule:
      decision: deny
      reason: no downloads into a shell
      instead: download it, read it, then run it
      commands:
        - code_from: [curl, wget]

  - id: check-writes
    on: tool:pre_execute
    tool: write|edit
    when: event.cwd.startsWith("/srv/")
    command: ./check.sh
    timeout: 2.5
    on_failure: deny

  - id: log-sessions
    on: [session:start, session:end]
    command: cat >> ~/sessions.log
    blocking: false
    retry: [1, 10]

guards:
  destructive-commands: {decision: ask}

tests:
  - name: a download into a shell is denied
    command: curl https://example.com/install.sh | sh
    expect: deny
    hook: no-download-into-shell

settings:
  budget: 5s
"""

ENDPOINTS_EXAMPLE: Final = """\
# fleethook.yaml
endpoints:
  - id: audit
    url: https://hooks.example/agents
    events: [tool:*, session:end]
    secret: env:AUDIT_SECRET
    batch: {max_events: 50, max_wait: 2}

  - id: blocked-calls
    url: https://hooks.slack.com/services/T0/B0/x
    format: slack
    when: verdict.decision == "deny"
    retry: fast

  - id: policy
    url: http://localhost:9000/decide
    events: tool:pre_execute
    can_block: true
    on_failure: ask

network:
  allow: ["localhost:9000"]
"""


def hooks_page() -> str:
    """The page of hooks."""
    packs = ", ".join(f"`{name}`" for name in guard_packs())
    return f"""\
# Hooks: every field

A `fleethook.yaml` has hooks, [endpoints](endpoints.md), imports, guards and settings. [Writing hooks](writing-hooks.md)
shows how to use them; [events](events.md) has the event types and the conditions of `when`. `fleethook config check` finds
mistakes in a file, and `fleethook config schema` prints the JSON Schema for editors. Keys that begin with `x-` are yours.

```yaml
{HOOKS_EXAMPLE}```

## The file

{field_table(FileFormat, types=_TOP_TYPES)}
## hooks

Each hook has exactly one of `command`, `http`, `rule`, `prompt` and `agent`. The command's variables are in
[settings](settings.md#variables-for-commands-of-hooks).

{field_table(HookEntry, HOOK_LINKS)}
## rule

A rule matches when every given condition is met, and a list when any of its entries is. Without conditions, `on`, `tool` and
`when` of the hook decide alone.

{field_table(Rule, HOOK_LINKS)}
## commands

The conditions of a rule on one command of a command line, as a shell would run it: behind `sudo` and `env`, in pipes,
substitutions and `sh -c`. Flags are compared by meaning: `-rf` is `-r` and `-f`, and `-r|--recursive` is either. In path
patterns, `*` and `?` stop at a slash and `**` does not; `src/**` is below the project, `*.pem` is any path of that name.
`(?i)` in front of a name, or of a pattern that starts with `/` or `**/`, makes it fit in any letter case.

{field_table(CommandMatch)}
## http

{field_table(HttpCall, HOOK_LINKS)}
## prompt and agent

A text, or a mapping with these fields. [Prompt hooks](prompt-hooks.md) shows how to use them.

{field_table(ModelPrompt)}
## hold

An `ask` with `hold` waits for a person: see [approvals](approvals.md). It works before tools, prompts and permissions.

{field_table(Hold)}
## unless

An exact call at which a hook does not run. Nothing in it is a pattern, and other calls are not affected. With `guards`, `rule`
names the rule of the pack. [`fleethook approvals remember`](approvals.md#remember) writes them.

{field_table(GuardException)}
## old_secrets

{field_table(OldSecret)}
## import

An entry is a path, or a mapping with these fields. See [importing hooks](importing.md).

{field_table(ImportEntry)}
## guards

The packs are {packs}; see [guards](guards.md). A pack is `true`, `false`, or a mapping with these fields.

{field_table(GuardSettings, HOOK_LINKS)}
## plugins

Python plugins by name; see [plugins](plugins.md). An entry is `true`, `false`, or a mapping with these fields.

{field_table(PluginEntry)}
## model

The chat endpoint that hooks with `prompt` or `agent` ask; see [prompt hooks](prompt-hooks.md).

{field_table(ModelEntry, MODEL_LINKS)}
## prices

{field_table(ModelPrice)}
## tests

`fleethook hooks test` runs the tests of a file, its commands included; [writing hooks](writing-hooks.md#test-your-hooks) shows
how. The event is a `tool:pre_execute` of `bash` unless other fields say more. The short fields are the same as in the tests of
guard packs.

{field_table(HookTestEntry, TEST_LINKS)}
## event

The event of a test as a mapping.

{field_table(HookTestEvent)}"""


def endpoints_page() -> str:
    """The page of endpoints and the network section."""
    return f"""\
# Endpoints: every field

Endpoints are in the same `fleethook.yaml` as [hooks](hooks.md). [Webhooks](webhooks.md) shows how to add, test and check them.

```yaml
{ENDPOINTS_EXAMPLE}```

## endpoints

{field_table(EndpointEntry, ENDPOINT_LINKS)}
## old_secrets

{field_table(OldSecret)}
## batch

Batches need the format `fleethook` or `cloudevents`, and neither `order: fifo` nor `can_block`.

{field_table(Batch)}
## network

Webhooks and `http` hooks reach public addresses over HTTPS only, unless this section allows more.

{field_table(Network)}"""
