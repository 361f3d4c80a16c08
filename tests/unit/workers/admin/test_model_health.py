"""Whether the hooks that ask a model can, as `doctor` and `status` say it."""

from __future__ import annotations

import pytest

from bus.events import Event
from bus.hooks import Layer
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.in_force import HookSet, Layered
from workers.admin.model_health import ModelHealth, model_health
from workers.simulation.simulate import simulate

HOOKS = "hooks: [{id: judge, on: '*', prompt: ok?}, {id: reads, on: 'agent:stop', agent: ok?}]\n"
LOCAL = "model: {url: 'http://127.0.0.1:11434/v1', name: small, names: {haiku: tiny}}\n"
ALLOWED = "network: {allow: ['127.0.0.1:11434']}\n"


def health(*texts: str) -> ModelHealth | None:
    names: tuple[Layer, ...] = ("fleet", "user")
    layers = [Layered(name, "1", parse_hook_file(text, name)) for name, text in zip(names, texts, strict=False)]
    return model_health(HookSet(layers))


@pytest.mark.req("I-12")
def test_what_is_wrong_is_said_before_a_hook_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert health("version: 1") is None
    missing = health(HOOKS)
    assert missing is not None
    assert (missing.hooks, missing.name) == (("judge", "reads"), "")
    assert missing.text.startswith("no model is configured: set `model:`")
    refused = health(HOOKS + LOCAL)
    assert refused is not None
    assert "refused (127.0.0.1 (loopback)" in refused.trouble
    good = health(HOOKS, LOCAL + ALLOWED)  # the user's own file names the model, and allows it
    assert good is not None
    assert (good.trouble, good.text) == ("", "small at http://127.0.0.1:11434/v1")
    monkeypatch.delenv("FH_MODEL_KEY", raising=False)
    keyed = HOOKS + "model: {url: 'https://api.example/v1', name: small, key: 'env:FH_MODEL_KEY'}"
    without = health(keyed)
    assert without is not None
    assert "env:FH_MODEL_KEY is not set" in without.trouble
    monkeypatch.setenv("FH_MODEL_KEY", "k" * 16)
    with_key = health(keyed)
    assert with_key is not None
    assert with_key.trouble == ""
    assert "kkkk" not in str(with_key)


@pytest.mark.req("I-12")
def test_the_fleets_model_counts_before_the_users() -> None:
    fleet = "model: {url: 'https://fleet.example/v1', name: big}\n"
    found = health(HOOKS + fleet, LOCAL + ALLOWED)
    assert found is not None
    assert found.name == "big"


@pytest.mark.req("I-12", "X-04")
async def test_a_simulation_names_the_question_and_asks_nobody() -> None:
    hooks = HookSet([Layered("fleet", "1", parse_hook_file(HOOKS + LOCAL, "fleet"))])  # nobody listens there
    found = await simulate(Event(type="agent:stop"), hooks, run=False, seconds=30, policy="deny")
    assert [(effect.hook, effect.kind, effect.target, effect.ran) for effect in found.effects] == [
        ("judge", "prompt", "small at http://127.0.0.1:11434/v1", False),
        ("reads", "agent", "small at http://127.0.0.1:11434/v1", False),
    ]
    assert found.unknown == ("judge", "reads")
    assert found.verdict.decision == "abstain"
