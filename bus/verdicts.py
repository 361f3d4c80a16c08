"""What the hooks said: decisions, one hook's part, the verdict, and the order of strictness.

Source: docs/architecture.md, "Verdicts".
"""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

import msgspec

from bus.events import GATES

Decision = Literal["allow", "deny", "ask", "abstain"]
Policy = Literal["allow", "deny", "ask"]

DECISIONS: Final[tuple[Decision, ...]] = get_args(Decision)
POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)
POLICIES_BY_STRICTNESS: Final[tuple[Policy, ...]] = ("allow", "ask", "deny")

_STRICTNESS: Final[dict[Decision, int]] = {"abstain": 0, "allow": 1, "ask": 2, "deny": 3}


def strictest(one: Decision, other: Decision) -> Decision:
    """The stricter of two decisions: deny > ask > allow > abstain."""
    return one if _STRICTNESS[one] >= _STRICTNESS[other] else other


def fallback_decision(policy: Policy) -> Decision:
    """What a failure policy amounts to: `allow` means that nobody objected (abstain), never an explicit allow."""
    return "abstain" if policy == "allow" else policy


def bus_policy(policy: Policy, event_type: str) -> Policy:
    """The bus's own failure policy at an event: it denies or asks only at gates, and elsewhere lets pass.

    A stop that is denied makes the agent go on, and nothing that has already happened can be denied.
    """
    return policy if event_type in GATES else "allow"


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one hook contributed to a verdict."""

    hook: str
    decision: Decision
    layer: str = ""
    version: str = ""
    reason: str = ""
    ms: float = 0.0
    exit_code: int | None = None
    fallback: str = ""
    """Why the failure policy answered instead of the hook; empty when the hook itself did."""
    origin: str = ""
    """`file:line` of the hook."""
    output: str = ""
    """The end of what the hook printed (redacted), for the trace; empty for a rule."""

    @property
    def place(self) -> str:
        """The layer that it came from, and the version of that: `fleet@3`."""
        return f"{self.layer}@{self.version}" if self.version else self.layer


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one request: the decision, who said what, how long it took, and whether it is a fallback."""

    decision: Decision = "abstain"
    event: str = ""
    reason: str = ""
    instead: str = ""
    """What to do instead, told to the model beside the reason."""
    contexts: tuple[str, ...] = ()
    updated_input: dict[str, Any] | None = None
    updated_output: Any = None
    """What the model reads in the place of the tool's output, in the agent's own form; None leaves it as it is."""
    halt: str = ""
    """Why the agent's work ends here, beyond a deny; empty where it goes on."""
    permissions: tuple[dict[str, Any], ...] = ()
    """Changes of the agent's permissions that an allow brings along."""
    interrupt: bool = False
    """A deny that also ends what the agent does now."""
    parts: tuple[Part, ...] = ()
    """What each hook said, in order; those of `silent` are not among them."""
    silent: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    """The rules that had nothing to say, by layer and version (`fleet@3`), each with the microseconds that it took: a
    guard pack alone has twenty, which as parts were most of what every verdict weighed."""
    ms: float = 0.0
    version: str = ""
    """The hook-set versions that were in force, e.g. `fleet@3 user@9f2c41`."""
    layers: tuple[str, ...] = ()
    fallback: str = ""
    """Why no hook gave this answer (timeout, no evaluator, …); empty for a real verdict."""
    notes: tuple[str, ...] = ()
    """What a person should know: a rewrite that was dropped, a context that was cut, a hook that failed open."""
    waiting: tuple[str, ...] = ()
    """Newer content of hook files that is not in force, and why: it has errors, or waits for trust."""
    lost: tuple[str, ...] = ()
    """What the agent was not told, since its protocol has no form for it."""
    repeated: bool = False
    """Hooks may have run twice: the evaluator that had the request first died."""

    @property
    def blocks(self) -> bool:
        """Whether the tool must not run."""
        return self.decision == "deny"


def failed(policy: Policy, why: str, *, event: str = "", version: str = "") -> Verdict:
    """The verdict that a failure policy gives when no hook could answer; its `fallback` says why.

    Source: docs/architecture.md, "Verdicts".
    """
    decision = fallback_decision(policy)
    reason = (
        f"fleethook could not get a verdict ({why}); its failure policy is {policy}" if decision != "abstain" else ""
    )
    return Verdict(decision=decision, event=event, reason=reason, fallback=why, version=version)
