"""The prefixes of the keys and tokens of services: what each begins with, and what follows it."""

from __future__ import annotations

from typing import Final, NamedTuple


class PrefixedToken(NamedTuple):
    """Keys that begin with one of these texts and go on with `body`."""

    prefixes: str
    """Separated by blanks."""
    body: str
    """A regular expression of what follows."""
    sign: str = ""
    """How the beginning of a key looks in small letters (RE2), where the prefix alone is in many other texts."""


_LONG: Final = r"[\w-]{20,}+"
_HEX_20: Final = r"[0-9a-f]{40}(?![0-9A-Za-z])"
_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"

PREFIXED: Final = (
    # code, builds and packages
    PrefixedToken("GR1348941 glrtr- glimt- glffct- glwt-", _LONG),
    PrefixedToken("CCIPAT_ CCIPRJ_ bkua_ bkaj_ bkct_ sqp_ squ_ sqa_ pnu_ pnb_", _LONG),
    PrefixedToken("cmVmdGtu cmVmdGtuO AKCp8", r"[A-Za-z0-9]{50,}+"),  # Artifactory
    PrefixedToken("CLOJARS_ rdme_ jsrp_ packagist_ut_ dckr_oat_ cio_ ghr_", _LONG),
    PrefixedToken("oy2", r"[a-z0-9]{43}(?![a-z0-9])", r"\boy2[a-z0-9]{43}"),  # NuGet
    PrefixedToken("API-", r"[A-Z0-9]{26,32}(?![A-Za-z0-9])", r"\bapi-[a-z0-9]{26}"),  # Octopus
    PrefixedToken("ATTA", r"[0-9a-zA-Z]{60,}+", r"\batta[0-9a-z]{60}"),  # Trello
    PrefixedToken("cnvca", r"[\w-]{40,}+"),
    PrefixedToken("pat-na1- pat-eu1- pat-na2-", _UUID),  # HubSpot
    # clouds and hosting
    PrefixedToken("LTAI", r"[A-Za-z0-9]{12,24}(?![A-Za-z0-9])"),  # Alibaba
    PrefixedToken("AKID", r"[A-Za-z0-9]{28,36}(?![A-Za-z0-9])"),  # Tencent
    PrefixedToken("ABSK", r"[A-Za-z0-9+/]{80,}+={0,2}"),  # Bedrock
    PrefixedToken("amzn.mws.", _UUID),
    PrefixedToken("rnd_ vcp_ vci_ vca_ vcr_ vck_", r"[A-Za-z0-9]{24,}+", r"\b(?:rnd|vc[piark])_[a-z0-9]{24}"),
    PrefixedToken("vercel_blob_rw_", r"\w{20,}+"),
    PrefixedToken("HRKU-AA", r"[\w-]{40,}+"),
    PrefixedToken("v1.0-", r"[0-9a-f]{24}-[0-9a-f]{140,}+"),  # Cloudflare
    PrefixedToken("cfut_ cfat_ cfk_", r"[\w-]{30,}+"),
    PrefixedToken("dt0c01. dt0s01. dt0s16.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),  # Dynatrace
    PrefixedToken("t1.", r"[A-Za-z0-9_-]{20,}+={0,2}\.[A-Za-z0-9_-]{60,}+", r"\bt1\.[a-z0-9_-]{20}"),  # Yandex
    PrefixedToken("AQVN", r"[\w-]{34,}+"),
    PrefixedToken("sha256~", r"[\w-]{43}(?![\w-])"),  # OpenShift
    PrefixedToken("tk-us-", r"[\w-]{48}"),
    PrefixedToken("A3-", r"[A-Z0-9]{6}(?:-[A-Z0-9]{5,11}){4,5}", r"\ba3-[a-z0-9]{6}-"),  # 1Password
    PrefixedToken("1//0", r"[\w-]{40,}+", r"1//0[a-z0-9_-]{30}"),  # Google's refresh token
    PrefixedToken("dnkey- ico- fio-u- sm_pat_ sm_aat_ apify_api_ tr_prod_ tr_dev_ signkey-prod-", _LONG),
    # payment and commerce
    PrefixedToken("access_token$production$ access_token$sandbox$", r"[0-9a-z]{16}\$[0-9a-f]{32}"),  # Braintree
    PrefixedToken("EAAA EAAAl EAAAE", r"[\w-]{56,}+"),  # Square
    PrefixedToken("EZAK EZTK", r"[A-Za-z0-9]{50,}+"),
    PrefixedToken("duffel_live_ duffel_test_ shippo_live_ shippo_test_", _LONG),
    PrefixedToken("FLWSECK-", r"[0-9a-z]{30,}+-X"),
    PrefixedToken("FLWSECK_TEST-", r"[0-9a-zA-Z]{12,}+"),
    PrefixedToken("access-production- access-development- access-sandbox-", _UUID),  # Plaid
    PrefixedToken("atkn_ sk_prod_ pk_prod_ secret-live- secret-test- hook_sk_", _LONG),
    # models
    PrefixedToken("fc- e2b_ jina_ rpa_ fw_ esecret_ tgp_v1_ nvapi-", r"[A-Za-z0-9]{24,}+", ""),
    PrefixedToken("sk_", r"[0-9a-f]{40,}+(?![0-9A-Za-z])", r"\bsk_[0-9a-f]{40}"),  # ElevenLabs
    PrefixedToken("pa-", r"[\w-]{43}(?![\w-])", r"\bpa-[a-z0-9_-]{43}"),  # Voyage
    PrefixedToken("BSA", r"[A-Za-z0-9_-]{27,28}(?![\w-])", r"\bbsa[a-z0-9_-]{27}"),  # Brave
    # watching and messaging
    PrefixedToken("NRJS- NRII- NRRA- NRIQ- NRAA-", r"[A-Za-z0-9_-]{16,}+"),
    PrefixedToken("eyJrIjoi", r"[A-Za-z0-9+/_-]{40,}+={0,2}"),  # Grafana's older keys
    PrefixedToken("phx_ phs_ hcaik_ hcxik_ hcbik_ hcxlk_ hcalk_ xaat- xapt- ddapp_", _LONG),
    PrefixedToken("sntrya_ lin_oauth_ tfp_ ory_pat_ ory_st_ ory_at_ unkey_ figu_ figo_ svix_ waka_", _LONG),
    PrefixedToken("SK", r"[0-9a-f]{32}(?![0-9A-Za-z])", r"\bsk[0-9a-f]{32}"),  # Twilio
    PrefixedToken("sk.eyJ", r"[\w-]{40,}+\.[\w-]{16,}+"),  # Mapbox
    PrefixedToken("sl.u. sl.", r"[\w-]{100,}+", r"\bsl\.(?:u\.)?[a-z0-9_-]{100}"),  # Dropbox
    PrefixedToken("EAA", r"[A-Za-z0-9]{90,}+", r"\beaa[a-z0-9]{90}"),  # Meta
    PrefixedToken("AAAAAAAAAAAAAAAAAAAAA", r"[A-Za-z0-9%]{60,}+"),  # X
    PrefixedToken("secret_ ntn_", r"[A-Za-z0-9]{40,}+(?![\w])"),  # Notion
    PrefixedToken("p8e-", r"[a-z0-9]{32}(?![a-z0-9])"),
    PrefixedToken("live_", r"[A-Za-z0-9]{30,40}(?![A-Za-z0-9_])", r"\blive_[a-z0-9]{30}"),  # Mollie, Lob
)
"""By the lists that the services publish and that scanners of repositories look for."""
