"""The formats of keys and tokens that are known by their own form. Redaction replaces them, and rules look for them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from bus.lazy.regex import lazy_regex


class TokenFormat(NamedTuple):
    """One format: the pattern is tried only where the lower-cased text holds one of the needles."""

    kind: str
    needles: frozenset[str]
    pattern: re.Pattern[str]


def _format(kind: str, needles: str, pattern: str) -> TokenFormat:
    return TokenFormat(kind, frozenset(needles.split()), lazy_regex(rf"(?<![A-Za-z0-9])(?:{pattern})"))


_PEM: Final = r"-----{edge} [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----"

PRIVATE_KEY: Final = TokenFormat(
    "private-key",
    frozenset({"private key"}),
    lazy_regex(_PEM.format(edge="BEGIN") + r"[\s\S]*?(?:" + _PEM.format(edge="END") + r"|\Z)"),
)

WEBHOOK_URL: Final = _format(
    "webhook-url",
    "hooks.slack.com/services/ /webhooks/",
    r"hooks\.slack\.com/services/T[A-Z0-9]{6,}+/B[A-Z0-9]{6,}+/[A-Za-z0-9]{16,}+"
    r"|discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]{15,}+/[A-Za-z0-9_-]{40,}+",
)
"""Addresses that anybody who knows them may post to."""

TOKEN_FORMATS: Final = (
    _format("private-key", "age-secret-key-", r"AGE-SECRET-KEY-1[0-9A-Z]{20,}+"),
    _format("jwt", "eyj", r"eyJ[A-Za-z0-9_-]{10,}+(?:\.[A-Za-z0-9_-]*+){1,4}"),
    _format("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{16,}+"),
    _format("github-token", "github_pat_", r"github_pat_[A-Za-z0-9_]{16,}+"),
    _format("gitlab-token", "glpat- gldt- glrt-", r"gl(?:pat|dt|rt)-[A-Za-z0-9_.-]{16,}+"),
    _format("slack-token", "xox xapp-", r"(?:xox[a-z][.-]|xapp-)[A-Za-z0-9.-]{10,}+"),
    _format("aws-key", "akia asia abia acca", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _format("google-key", "aiza", r"AIza[A-Za-z0-9_-]{30,}+"),
    _format("google-token", "ya29. gocspx-", r"(?:ya29\.|GOCSPX-)[A-Za-z0-9_.-]{16,}+"),
    _format("api-key", "sk-", r"sk-[A-Za-z0-9_-]{16,}+"),  # Anthropic, OpenAI, OpenRouter, DeepSeek ...
    _format("api-key", "xai- gsk_ r8_ hf_ pplx- tvly-", r"(?:xai-|gsk_|r8_|hf_|pplx-|tvly-)[A-Za-z0-9_-]{20,}+"),
    _format("fleethook-token", "fht_ fha_", r"fh[ta]_[A-Za-z0-9_-]{20,}+"),
    _format("stripe-key", "k_live_ k_test_", r"[rs]k_(?:live|test)_[A-Za-z0-9]{10,}+"),
    _format("webhook-secret", "whsec_ whsk_", r"(?:whsec|whsk)_[A-Za-z0-9+/_-]{16,}+={0,2}"),
    _format("registry-token", "npm_ pypi- dckr_pat_", r"(?:npm_|pypi-|dckr_pat_)[A-Za-z0-9_-]{20,}+"),
    _format("api-key", "sg. dop_v1_ lin_api_ atatt3 shpat_", r"(?:SG\.|dop_v1_|lin_api_|ATATT3|shpat_)[\w.=-]{20,}+"),
    _format("api-key", "dp.pt. dp.st. dp.sa. hvs. hvb.", r"(?:dp\.(?:pt|st|sa|ct)\.|hv[sb]\.)[A-Za-z0-9_-]{20,}+"),
    _format("api-key", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?(?![A-Za-z0-9])"),
    _format(
        "api-key",
        "glsa_ glc_ ntn_ sbp_ pscale_ figd_",
        r"(?:glsa_|glc_|ntn_|sbp_|pscale_(?:tkn|pw)_|figd_)[\w.=-]{20,}+",
    ),
    _format(
        "api-key", "pmak- nvapi- nrak- rubygems_ fo1_", r"(?:PMAK-|nvapi-|NRAK-|rubygems_|fo1_)[A-Za-z0-9_-]{20,}+"
    ),
    _format("telegram-token", ":aa", r"(?:bot)?[0-9]{6,12}:AA[A-Za-z0-9_-]{30,}+"),
)
