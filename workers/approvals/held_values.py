"""The values of a held request: its fields, the rules that ask and their needs, the approval, and what the rules say by now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bus.event_folder import folder_fields
from bus.requests import Request
from bus.secrets.redaction import redact_text
from bus.verdicts import Approval, ApprovalState, Part
from workers.approvals.questions import AskingRule, Need
from workers.approvals.summary import MOST_TEXT, readable


def request_fields(request: Request) -> dict[str, str | bytes | int]:
    """The fields from which `read_request` makes the request again."""
    about = iter((*folder_fields(request.folder), *request.reporter.fields))
    fields: dict[str, str | bytes | int] = {
        "deadline": request.latest,
        "latest": request.latest,
        "sent": request.added,
        "source": request.source,
        "event": request.native,
        "host": request.host,
        "body": request.body,
        **dict(zip(about, about, strict=True)),
        **request.trace.headers(),
    }
    if request.parent:
        fields["parent"] = request.parent
    if request.policy != "allow":
        fields["policy"] = request.policy
    if request.flag:
        fields["flag"] = request.flag
    if request.user:
        fields["user"] = request.user
    return fields


def asking_rule(part: Part) -> AskingRule:
    return AskingRule(
        hook=part.hook,
        layer=part.layer,
        version=part.version,
        origin=part.origin,
        reason=readable(redact_text(part.reason)[:MOST_TEXT]),
        group=part.hold.group if part.hold is not None else "",
    )


def needs(parts: Sequence[Part]) -> list[Need]:
    holds = [part.hold for part in parts if part.hold is not None and part.hold.named]
    return [Need(members=hold.members, persons=hold.persons) for hold in holds]


def approval(question: str, state: ApprovalState, row: Mapping[str, bytes | None], *, ticket: bool = False) -> Approval:
    text = {
        name: (row.get(name) or b"").decode("utf-8", "replace")
        for name in ("by", "via", "asked", "answered", "comment")
    }
    return Approval(
        question=question,
        state=state,
        by=text["by"],
        via=text["via"],
        asked=int(text["asked"] or 0),
        answered=int(text["answered"] or 0),
        comment=text["comment"],
        ticket=ticket,
    )


def waited(approval: Approval) -> str:
    seconds = round((approval.answered - approval.asked) / 1000)
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"
