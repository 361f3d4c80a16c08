"""Decisions and verdicts, and the order of strictness.

Source: docs/architecture.md, "Verdicts".
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Meta

from bus.events import GATES

Decision = Literal["allow", "deny", "ask", "abstain"]
Policy = Literal["allow", "deny", "ask"]

DECISIONS: Final[tuple[Decision, ...]] = get_args(Decision)
POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)
POLICIES_BY_STRICTNESS: Final[tuple[Policy, ...]] = ("allow", "ask", "deny")

_STRICTNESS: Final[dict[Decision, int]] = {"abstain": 0, "allow": 1, "ask": 2, "deny": 3}


def strictest(first: Decision, second: Decision) -> Decision:
    """The stricter of two decisions: deny > ask > allow > abstain."""
    return first if _STRICTNESS[first] >= _STRICTNESS[second] else second


def fallback_decision(policy: Policy) -> Decision:
    """The decision of a failure policy: a policy of `allow` gives abstain, never an explicit allow."""
    return "abstain" if policy == "allow" else policy


def bus_policy(policy: Policy, event_type: str) -> Policy:
    """The bus's failure policy at an event: deny and ask apply only at gates; elsewhere it is allow.

    A denied stop would make the agent continue, and what has already happened cannot be denied.
    """
    return policy if event_type in GATES else "allow"


class Hold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a hook's `ask` waits for a person's answer."""

    timeout: Annotated[
        float,
        Meta(
            gt=0,
            le=86_400,
            description="Seconds that a person has for the answer. Where the agent waits for less, the call is denied with a "
            "ticket, and the same call passes once within ten minutes of a later yes.",
            examples=[120],
        ),
    ] = 300.0
    default: Annotated[
        Policy,
        Meta(
            description="The decision where nobody answers in time or nobody can be asked: `deny`, `ask` (the agent's own "
            "prompt) or `allow` (the agent goes on by its own rules).",
            examples=["ask"],
        ),
    ] = "deny"
    group: Annotated[
        str,
        Meta(
            max_length=64,
            description="A list of `groups` in the same file: only its members can approve.",
            examples=["release"],
        ),
    ] = ""
    members: Annotated[
        tuple[str, ...],
        Meta(
            max_length=200,
            description="The names of the tokens whose holders can approve, where no group is named.",
            examples=[["ana", "ben"]],
        ),
    ] = ()
    persons: Annotated[
        int,
        Meta(
            ge=1,
            le=10,
            description="How many different persons have to approve. Above 1, and with a group, only persons with a token "
            "count.",
            examples=[2],
        ),
    ] = 1

    @property
    def named(self) -> bool:
        """Whether only persons with a token can approve."""
        return bool(self.members or self.group) or self.persons > 1


ApprovalState = Literal["waiting", "approved", "denied", "timed_out", "nobody_could_be_asked", "overtaken"]


class Approval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the question was answered that held a call."""

    question: str
    """Its id, which is the id of the event."""
    state: ApprovalState
    """`waiting`: the agent's time was over before an answer; the others are final."""
    by: str = ""
    """Who answered: a token's name, a user and host, or `holder of the link`."""
    via: str = ""
    """How: `token`, `user` or `link`; empty if nobody answered."""
    asked: int = 0
    """When the question was asked, in milliseconds by the server's clock."""
    answered: int = 0
    """When it was decided, in the same clock; 0: it was not."""
    ticket: bool = False
    """The answer was given to an earlier call; this call is the one that its ticket lets pass."""
    comment: str = ""
    """What the person wrote with the answer."""


class ModelUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a hook that asks a model used."""

    name: str
    """The model, by its endpoint's name."""
    requests: int = 0
    """Requests to the endpoint; 0 where the answer was remembered."""
    cached: bool = False
    """Whether the answer was remembered from the same question before."""
    input_tokens: int = 0
    """Tokens that were sent, as the endpoint counts them."""
    output_tokens: int = 0
    """Tokens that the model wrote, as the endpoint counts them."""
    cost: float | None = None
    """What they cost by the configured prices; None without a price, or where the endpoint gives no numbers."""
    currency: str = ""
    """The currency of `cost`."""


class LimitUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A limit that a call met, and how much of it was used."""

    limit: str
    """The limit in words: `30 calls per minute for this session`."""
    most: int | float
    """Its number."""
    count: int | float | None = None
    """How much was used: with this call if it passed, without it if it did not. None: the call was not counted."""
    free_at: int = 0
    """When the next call fits again, in milliseconds by the server's clock; 0: this one did, or never in this session."""
    over: bool = False
    """Whether the limit was reached before this call."""


class Charge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a call adds to a limit when it is answered, and what its rule says if the limit is reached by then."""

    hook: str
    layer: str
    counter: str
    """What identifies the rule for its counters."""
    limit: str
    """The rule's `limit:` as written."""
    decision: Decision | Literal["warn"]
    reason: str
    instead: str = ""
    hold: Hold | None = None
    observe: bool = False
    on_failure: Policy = "allow"
    is_over: bool = False
    """The limit is known to be reached and its rule does not deny: the call counts and passes."""


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one hook contributed to a verdict."""

    hook: str
    """The hook's id."""
    decision: Decision
    """What it decided."""
    layer: str = ""
    """The layer that the hook belongs to: `fleet`, `user`, `project` or `session`."""
    version: str = ""
    """The version of that layer."""
    reason: str = ""
    """Why, in the hook's words."""
    ms: float = 0.0
    """Milliseconds that it took."""
    exit_code: int | None = None
    """The exit code of its command."""
    fallback: str = ""
    """Why the failure policy answered instead of the hook; empty when the hook itself did."""
    origin: str = ""
    """`file:line` of the hook's definition."""
    output: str = ""
    """The end of what the hook printed, redacted, for the trace; empty for a rule."""
    hold: Hold | None = None
    """How its `ask` waits for a person; None if the agent itself asks, and for other decisions."""
    observed: Decision | None = None
    """What it would have decided if it did not only observe; `abstain` if it would only have changed something."""
    model: ModelUse | None = None
    """What a prompt or agent hook used; None for other hooks, and where no model was asked."""
    limit: LimitUse | None = None
    """The limit of its rule that the call met; None for other rules and hooks."""
    facts: tuple[str, ...] = ()
    """The facts of the session that its condition read, in words."""

    @property
    def place(self) -> str:
        """The layer with its version: `fleet@3`."""
        return f"{self.layer}@{self.version}" if self.version else self.layer


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one request: the decision, what each hook contributed, and whether it is a fallback."""

    decision: Decision = "abstain"
    """The strictest decision of all hooks; `abstain` where none objected."""
    event: str = ""
    """The id of the event."""
    reason: str = ""
    """Why, for the model and the user."""
    instead: str = ""
    """What the model should do instead; it reads this after the reason."""
    contexts: tuple[str, ...] = ()
    """Texts for the model that hooks added."""
    updated_input: dict[str, Any] | None = None
    """The changed input of the tool; None leaves it as it is."""
    updated_output: Any = None
    """What the model reads instead of the tool's output, in the agent's own form; None leaves it as it is."""
    halt: str = ""
    """Why the agent has to stop altogether; empty where it continues."""
    permissions: tuple[dict[str, Any], ...] = ()
    """Changes of the agent's permissions that come with an allow."""
    interrupt: bool = False
    """The deny also interrupts the agent's turn."""
    parts: tuple[Part, ...] = ()
    """What each hook contributed, in order, without the rules in `silent`."""
    silent: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    """Microseconds of each rule that did not match, by layer and version (`fleet@3`). As parts, the twenty and more rules
    of a guard pack made up most of the size of a verdict."""
    ms: float = 0.0
    """Milliseconds from the request's arrival at an evaluator to the verdict."""
    version: str = ""
    """The versions of the hook sets that were in force, e.g. `fleet@3 user@9f2c41`."""
    layers: tuple[str, ...] = ()
    """The layers whose hooks were in force."""
    fallback: str = ""
    """Why no hook gave this answer (timeout, no evaluator, …); empty for a real verdict."""
    notes: tuple[str, ...] = ()
    """Messages for the user: a dropped rewrite, a cut context, a hook that failed and let the call pass."""
    waiting: tuple[str, ...] = ()
    """Changed hook files that are not in force, each with the reason: errors, or missing trust."""
    lost: tuple[str, ...] = ()
    """Parts of the verdict that the agent's protocol cannot carry."""
    repeated: bool = False
    """Hooks may have run twice, because the first evaluator of the request died."""
    approval: Approval | None = None
    """The question that held the call; None if it was not held."""
    stop: str = ""
    """The id of the stop in force that denied it; empty if none did."""
    messages: tuple[str, ...] = ()
    """The ids of the people's messages that it carries as context."""
    charges: tuple[Charge, ...] = ()
    """The limits that the call counts for, while it is on its way from its hooks to its answer."""

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
