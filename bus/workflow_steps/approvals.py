"""What has to be true before a step is left: a person's yes, a variable, an expression, or a webhook's answer."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from bus.errors import FleethookError
from bus.events import EventType
from bus.workflow_steps.requests import webhook_request
from bus.workflow_steps.work import Work
from bus.workflows.values import ExitCondition, FlowStep

_YES: Final = re.compile(r"\s*(yes|approved?|proceed|continue|ok(ay)?|y)\b", re.IGNORECASE)
_NO: Final = re.compile(r"\s*(no|reject(ed)?|stop|cancel|abort|n)\b", re.IGNORECASE)


async def take_prompt(work: Work) -> None:
    """At a person's prompt: read the answer to an open question, or ask what the step has to be asked."""
    if work.event.type != EventType.USER_PROMPT_SUBMIT:
        return
    step = work.step
    if step is None:
        return
    questions = {condition.id: condition for condition in step.exit_conditions if condition.kind == "user_approval"}
    open_question = questions.get(work.state.waits_for)
    if open_question is not None:
        _take_answer(work, open_question)
        return
    work.state.waits_for = ""
    for question in questions.values():
        if question.id not in work.state.answers:
            work.state.waits_for, work.state.asked, work.changed = question.id, work.now, True
            text = work.reason_text(question.text) or f"May the step {step.name!r} be left?"
            work.contexts.append(f"Ask the person, and wait for the answer (yes or no): {text}")
            work.done.append(f"asks {question.id}")
            return


def _take_answer(work: Work, question: ExitCondition) -> None:
    prompt, state = str(work.event.data.get("prompt") or ""), work.state
    late = question.timeout and work.now - state.asked > question.timeout * 1000
    granted = bool(_YES.match(prompt)) and not late
    if not granted and not late and not _NO.match(prompt):
        return  # it is still open
    state.answers[question.id], state.waits_for = granted, ""
    work.set(f"_approval_{question.id}_granted", granted)
    work.set(f"_approval_{question.id}_rejected", not granted)
    work.done.append(f"{question.id} {'approved' if granted else 'timed out' if late else 'refused'}")
    work.contexts.append(
        f"The person has {'approved' if granted else 'refused'}: {work.reason_text(question.text)}".rstrip(": ")
    )


def waiting_text(work: Work) -> str:
    """Why tools are blocked while a question is open."""
    step = work.step
    conditions = () if step is None else step.exit_conditions
    text = next((condition.text for condition in conditions if condition.id == work.state.waits_for), "")
    return f"the workflow {work.workflow.name!r} waits for the person's answer (yes or no): {work.reason_text(text)}".rstrip(
        ": "
    )


async def may_leave(work: Work, step: FlowStep) -> bool:
    """Whether the exit conditions let a step be left. Those of Gobby's files never hold a transition back, as in Gobby."""
    if work.workflow.language == "python":
        return True
    for condition in step.exit_conditions:
        if not await is_met(work, condition):
            return False
    return True


async def is_met(work: Work, condition: ExitCondition) -> bool:
    """Whether one exit condition is met."""
    if condition.kind == "user_approval":
        return work.state.answers.get(condition.id, False)
    if condition.kind == "variable_set":
        return work.get(condition.text) is not None
    if condition.kind == "expression":
        return await work.holds(condition.text)
    return await _webhook_agrees(work, condition)


async def _webhook_agrees(work: Work, condition: ExitCondition) -> bool:
    action = condition.webhook
    if action is None:
        return False
    values = action.values
    try:
        request = webhook_request(work.workflow, action, work.event, work.names())
        answer = await work.effects.webhook(action, request)
    except FleethookError as error:
        work.note(f"workflow {work.workflow.name!r}: {condition.id}: {error}")
        return False
    body = _json(answer.body)
    if values.get("store_as"):
        work.set(str(values["store_as"]), {"status": answer.status, "body": body})
    checks = []
    if values.get("status_code") is not None:
        checks.append(answer.status == values["status_code"])
    elif values.get("expect_success", True):
        checks.append(200 <= answer.status < 300)
    if values.get("body_contains"):
        checks.append(str(values["body_contains"]) in answer.body)
    if values.get("json_field"):
        found = _field(body, str(values["json_field"]))
        checks.append(found == values["json_value"] if "json_value" in values else found is not None)
    return not answer.error and all(checks)


def _field(body: Any, path: str) -> Any:
    for name in path.split("."):
        if not isinstance(body, dict) or name not in body:
            return None
        body = body[name]
    return body


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
