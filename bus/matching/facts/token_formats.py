"""The formats of keys and tokens that are known by their own form. Redaction replaces them, and rules look for them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from bus.lazy.regex import lazy_regex
from bus.matching.facts.service_tokens import PREFIXED, PrefixedToken


class TokenFormat(NamedTuple):
    """One format: the pattern is tried only where the lower-cased text holds one of the needles."""

    kind: str
    needles: frozenset[str]
    pattern: re.Pattern[str]
    sign: str = ""
    """What a text in small letters with such a token matches (RE2), where the needles are in many other texts too."""

    @property
    def gate(self) -> str:
        """A pattern without which a text in small letters has no such token."""
        return self.sign or "|".join(map(re.escape, sorted(self.needles)))


def _format(kind: str, needles: str, pattern: str, sign: str = "") -> TokenFormat:
    return TokenFormat(kind, frozenset(needles.split()), lazy_regex(rf"(?<![A-Za-z0-9])(?:{pattern})"), sign)


def _prefixed(token: PrefixedToken) -> TokenFormat:
    prefixes = sorted(token.prefixes.split(), key=len, reverse=True)
    pattern = f"(?:{'|'.join(map(re.escape, prefixes))}){token.body}"
    return _format("api-key", token.prefixes.lower(), pattern, token.sign)


_PEM: Final = r"-----{edge} [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----"

PRIVATE_KEY: Final = TokenFormat(
    "private-key",
    frozenset({"private key"}),
    lazy_regex(_PEM.format(edge="BEGIN") + r"[\s\S]*?(?:" + _PEM.format(edge="END") + r"|\Z)"),
)

OTHER_PRIVATE_KEYS: Final = (
    TokenFormat(
        "private-key",
        frozenset({"putty-user-key-file-"}),
        lazy_regex(r"PuTTY-User-Key-File-\d[\s\S]{0,4000}?Private-Lines: \d+\s+[A-Za-z0-9+/=\s]{20,4000}"),
    ),
    _format(  # "-----BEGIN … PRIVATE KEY" in Base64, as kubeconfig files and secrets of Kubernetes have it
        "private-key",
        "ls0tls1crudjti",
        r"LS0tLS1CRUdJTiB(?:QUklWQVRF|SU0EgUFJJVkFURS|FQyBQUklWQVRF|PUEVOU1NI|FTkNSWVBURU)[A-Za-z0-9+/]{40,}+",
    ),
)
"""Private keys in other wrappings than PEM."""

WEBHOOK_URL: Final = _format(
    "webhook-url",
    "hooks.slack.com/ /webhooks/ .office.com/webhook hooks.zapier.com/ maker.ifttt.com/ .make.com/ /bot/v2/hook/ /robot/send?"
    " /webhook/send?key= chat.googleapis.com/v1/spaces/",
    r"hooks\.slack\.com/services/T[A-Z0-9]{6,}+/B[A-Z0-9]{6,}+/[A-Za-z0-9]{16,}+"
    r"|discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]{15,}+/[A-Za-z0-9_-]{40,}+"
    r"|hooks\.slack\.com/(?:workflows|triggers)/[A-Z0-9]{6,}+/[A-Z0-9]{6,}+/[A-Za-z0-9/]{16,}+"
    r"|outlook\.office\.com/webhook/[0-9a-f@-]{36,80}/IncomingWebhook/[0-9a-f]{32}/[0-9a-f-]{36}"
    r"|[\w-]{1,64}\.webhook\.office\.com/webhookb2/[0-9a-f@-]{36,80}/IncomingWebhook/[0-9a-f]{32}/[0-9a-f-]{36}"
    r"|hooks\.zapier\.com/hooks/(?:catch|standard)/[0-9]{4,}+/[a-z0-9]{6,}+|hook\.[a-z0-9.]{2,8}make\.com/[a-z0-9]{28,}+"
    r"|maker\.ifttt\.com/trigger/[\w-]{1,64}/(?:json/)?with/key/[\w-]{20,}+"
    r"|open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook/[0-9a-f-]{36}"
    r"|oapi\.dingtalk\.com/robot/send\?access_token=[0-9a-f]{64}"
    r"|qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key=[0-9a-f-]{36}"
    r"|chat\.googleapis\.com/v1/spaces/[\w-]{6,}+/messages\?key=[\w-]{30,}+&token=[\w%-]{20,}+",
)
"""Addresses that anybody who knows them may post to."""

TOKEN_FORMATS: Final = (
    _format("private-key", "age-secret-key-", r"AGE-SECRET-KEY-1[0-9A-Z]{20,}+"),
    _format("jwt", "eyj", r"eyJ[A-Za-z0-9_-]{10,}+(?:\.[A-Za-z0-9_-]*+){1,4}"),
    _format("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{16,}+"),
    _format("github-token", "github_pat_", r"github_pat_[A-Za-z0-9_]{16,}+"),
    _format(
        "gitlab-token",
        "glpat- gldt- glrt- glptt- glft- glcbt- glsoat- glagent- gloas-",
        r"gl(?:pat|dt|rt|ptt|ft|cbt|soat|agent|oas)-[A-Za-z0-9_.-]{16,}+",
    ),
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
    _format(
        "api-key",
        "sntrys_ sntryu_ sb_secret_ fm2_ napi_ nfp_",
        r"(?:sntry[su]_|sb_secret_|fm2_|napi_|nfp_)[\w+/=-]{20,}+",
    ),
    _format("api-key", "pcsk_ lsv2_ csk- ops_eyj", r"(?:pcsk_|lsv2_(?:pt|sk)_|csk-|ops_eyJ)[\w+/=-]{20,}+"),
    _format(
        "api-key", "hrku- cfpat- pul- tskey- sgp_", r"(?:HRKU-|CFPAT-|pul-|tskey-[a-z]{2,8}-|sgp_)[A-Za-z0-9_-]{20,}+"
    ),
    _format("api-key", "atctt3 atbb shpss_ shpca_ shppa_", r"(?:ATCTT3|ATBB|shpss_|shpca_|shppa_)[\w.=-]{20,}+"),
    _format("api-key", "doo_v1_ dor_v1_ xkeysib- akcp", r"(?:do[or]_v1_|xkeysib-|AKCp)[A-Za-z0-9_-]{20,}+"),
    _format("api-key", "sq0csp- sq0atp- rzp_live_ pdl_live_", r"(?:sq0(?:csp|atp)-|rzp_live_|pdl_live_)[\w-]{14,}+"),
    _format("api-key", "ffffnral", r"[0-9a-f]{32,36}FFFFNRAL"),
    _format("api-key", "key-", r"key-[0-9a-f]{32}(?![0-9A-Za-z])"),  # Mailgun
    _format("api-key", "-us1 -us2 -us3 -us4 -us5 -us6 -us7 -us8 -us9", r"[0-9a-f]{32}-us[0-9]{1,2}(?![0-9A-Za-z])"),
    _format("api-key", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{40,}+"),
    _format("api-key", "7q~ 8q~", r"[A-Za-z0-9_~.-]{3}[78]Q~[A-Za-z0-9_~.-]{31,}+"),  # a client secret of Azure
    _format("api-key", "pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", r"\bpat[a-z0-9]{14}\.[0-9a-f]{64}"),  # Airtable
    _format(  # Resend
        "api-key", "re_", r"re_[A-Za-z0-9]{6,16}_[A-Za-z0-9]{16,}+", r"\bre_[a-z0-9]{6,16}_[a-z0-9]{16}"
    ),
    _format("api-key", "twilio", r"(?:AC|SK)[0-9a-f]{32}[\"',:;\s][^\n]{0,40}?\b[0-9a-f]{32}(?![0-9a-f])"),
    _format("api-key", "apa91b", r"[A-Za-z0-9_-]{8,24}:APA91b[A-Za-z0-9_-]{100,}+"),  # Firebase's cloud messaging
    _format("api-key", "azdo jqqj99", r"[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9+/]{20,}+={0,2}"),  # Azure
    _format("api-key", "_mmk", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),  # MaxMind
    _format(
        "api-key", "/", r"[012]/[0-9]{16}(?:/[0-9]{16})?:[0-9a-f]{32}", r"\b[012]/[0-9]{16}[/:][0-9a-f]{16}"
    ),  # Asana
    _format(
        "private-key",
        '"kty"',
        r'"kty"[^{}]{0,4000}?"d"\s{0,4}:\s{0,4}"[\w-]{40,}+"|"d"\s{0,4}:\s{0,4}"[\w-]{40,}+"[^{}]{0,4000}"kty"',
    ),
    _format("signature", "sig=", r"sig=[A-Za-z0-9%/+]{40,}(?:%3[Dd]|=)"),  # an address with access to Azure's storage
    _format(
        "discord-token",
        ".",
        r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}+",
        r"\b[mno][a-z0-9_-]{23,27}\.[a-z0-9_-]{6}\.[a-z0-9_-]{27}",
    ),
    _format("telegram-token", ":aa", r"(?:bot)?[0-9]{6,12}:AA[A-Za-z0-9_-]{30,}+"),
    *map(_prefixed, PREFIXED),
)
