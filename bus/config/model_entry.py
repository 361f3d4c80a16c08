"""The format of `model:` in fleethook.yaml: the chat endpoint that prompt and agent hooks ask (I-12)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from bus.config.field_types import END, Seconds

KEY_PATTERN: Final = "^(|env:[A-Za-z_][A-Za-z0-9_]{0,127}|file:[^\\x00-\\x1f]{1,4096})" + END
"""A key is a reference and never the key itself."""

OWN_KEY: Final = "env:FLEETHOOK_"
"""How a key begins that is a variable of Fleethook itself, which may hold its credentials and is not sent."""

AnswerForm = Literal["auto", "json_schema", "json_object", "text"]


class ModelPrice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model costs, in `currency` for a million tokens."""

    input: Annotated[
        float, Meta(ge=0, le=1_000_000, description="For a million tokens that are sent.", examples=[0.25])
    ]
    output: Annotated[
        float, Meta(ge=0, le=1_000_000, description="For a million tokens that the model writes.", examples=[2.0])
    ]


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The OpenAI-compatible chat endpoint that hooks with `prompt` or `agent` ask."""

    url: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=2048,
            description="The base URL; `/chat/completions` is added where it is missing. A loopback or private address "
            "needs an entry in `network.allow`.",
            examples=["https://api.openai.com/v1", "http://127.0.0.1:11434/v1"],
        ),
    ]
    name: Annotated[
        str,
        Meta(min_length=1, max_length=200, description="The model, where a hook names none.", examples=["gpt-5-mini"]),
    ]
    key: Annotated[
        str,
        Meta(
            pattern=KEY_PATTERN,
            description="The key as `env:NAME` or `file:PATH`, sent as a bearer token; without it, none is sent.",
            examples=["env:OPENAI_API_KEY"],
        ),
    ] = ""
    headers: Annotated[
        dict[str, str],
        Meta(
            description="Further request headers. Values may contain `${VAR}` and `${file:PATH}`.",
            examples=[{"api-key": "${AZURE_KEY}"}],
        ),
    ] = msgspec.field(default_factory=dict)
    names: Annotated[
        dict[str, str],
        Meta(
            description="This endpoint's model for each name that hooks use. A name of an imported hook that is not listed "
            "counts as `name`.",
            examples=[{"haiku": "gpt-5-nano"}],
        ),
    ] = msgspec.field(default_factory=dict)
    timeout: Annotated[
        Seconds, Meta(description="Seconds for one request; the hook's `timeout` is for all of them.", examples=[15])
    ] = 60.0
    answers: Annotated[
        AnswerForm,
        Meta(
            description="What the request asks the server to enforce: a JSON schema, any JSON object, or nothing. `auto` "
            "begins with the schema, and asks for less where the server refuses it.",
            examples=["json_object"],
        ),
    ] = "auto"
    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=2)] | None,
        Meta(description="Sent where it is set; some models accept none.", examples=[0]),
    ] = None
    max_tokens: Annotated[
        int,
        Meta(ge=16, le=100_000, description="The most tokens of one answer, thoughts included.", examples=[500]),
    ] = 2_000
    max_bytes: Annotated[
        int,
        Meta(
            ge=1_024,
            le=65_536,
            description="The most bytes of an event that are sent. At a larger event the hook fails, because a judge that "
            "sees a part of it could be misled.",
            examples=[32_768],
        ),
    ] = 65_536
    cache: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="Seconds for which a worker remembers the answer to the same prompt about the same event; 0: not at "
            "all. Answers of agent hooks are not remembered.",
            examples=[0],
        ),
    ] = 300.0
    cache_entries: Annotated[
        int,
        Meta(ge=1, le=100_000, description="The most answers that a worker remembers.", examples=[200]),
    ] = 1_000
    prices: Annotated[
        dict[str, ModelPrice],
        Meta(
            description="Prices by the endpoint's model name, for the cost in traces and metrics.",
            examples=[{"gpt-5-mini": {"input": 0.25, "output": 2.0}}],
        ),
    ] = msgspec.field(default_factory=dict)
    currency: Annotated[
        str, Meta(pattern="^[A-Za-z]{3}" + END, description="The currency of `prices`.", examples=["EUR"])
    ] = "USD"
