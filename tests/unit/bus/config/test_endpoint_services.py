"""What a hook file may say of an endpoint's format, and what is said of it when it says something else (G-22, F-11)."""

from __future__ import annotations

import pytest

from bus.config.endpoint_services import reads
from bus.errors import ConfigError
from bus.hooksets.hookfile import HookFile, from_document, parse_hook_file, to_document
from tests.support.rows import rows


def read(line: str) -> HookFile:
    """A file with one endpoint."""
    return parse_hook_file(f"endpoints:\n  - {{id: a, {line}}}\n", "fleet")


@pytest.mark.req("G-22")
@pytest.mark.parametrize(
    "line",
    [
        "url: 'https://x.example/', format: cloudevents, payload: thin",
        "url: 'https://hooks.slack.com/services/T0/B0/x', format: slack",
        "url: 'https://discord.com/api/webhooks/1/x', format: discord",
        "url: 'https://discord.com/api/webhooks/1/x/slack', format: slack",
        "url: 'https://contoso.webhook.office.com/webhookb2/x', format: teams",
        "format: pagerduty, routing_key: env:PD_KEY, resolve: retry",
        "format: pagerduty, routing_key: 'file:/run/secrets/pd', url: 'https://events.eu.pagerduty.com/v2/enqueue'",
    ],
)
def test_a_format_is_taken_and_published_as_it_is(line: str) -> None:
    found = read(line)
    assert (found.problems, found.warnings) == ((), ())
    (one,) = found.endpoints
    assert one.url.startswith("https://")
    assert from_document(to_document(found)).endpoints == found.endpoints


@pytest.mark.req("G-22", "F-11")
@rows(
    ("line", "message"),
    [
        ("url: 'https://x.example/', format: slak", 'did you mean "slack"'),
        ("url: 'https://x.example/', payload: small", "payload has to be full, raw or thin"),
        ("format: slack", '"url" is missing'),
        ("events: '*'", '"url" is missing'),
        ("format: pagerduty", "needs a routing_key"),
        ("format: pagerduty, routing_key: R0UT1NGKEY0000000000000000000000", "is written env:NAME or file:PATH"),
        ("format: pagerduty, routing_key: 'env:'", "is written env:NAME or file:PATH"),
        ("url: 'https://x.example/', routing_key: env:KEY", "format fleethook has no routing_key"),
        ("url: 'https://x.example/', format: teams, resolve: session", "format teams cannot have resolve"),
        ("url: 'https://x.example/', format: slack, can_block: true", "format slack gives no verdict"),
        ("url: 'https://x.example/', payload: thin, can_block: true", "an endpoint that decides needs the whole event"),
        ("url: 'https://x.example/', payload: raw", "only an endpoint with can_block: true may get the raw event"),
        ("url: 'https://x.example/', can_block: true, on_failure: perhaps", "on_failure has to be"),
    ],
)
def test_a_mistake_has_its_place_and_the_endpoint_is_not_in_force(line: str, message: str) -> None:
    found = read(line)
    (problem,) = found.problems
    assert message in str(problem)
    assert "R0UT1NG" not in str(problem), "a key that stands in the file is not quoted"
    assert problem.line == 2
    assert found.endpoints == ()


@pytest.mark.req("G-22")
@rows(
    ("url", "known"),
    [
        ("https://hooks.slack.com/services/T0/B0/x", "slack"),
        ("https://hooks.slack-gov.com/services/x", "slack"),
        ("https://discord.com/api/webhooks/1/x", "discord"),
        ("https://ptb.discord.com/api/v10/webhooks/1/x?wait=true", "discord"),
        ("https://discordapp.com/api/webhooks/1/x/slack", "slack"),
        ("https://discord.com/api/webhooks/1/x/github", None),
        ("https://events.pagerduty.com/v2/enqueue", "pagerduty"),
        ("https://outlook.office.com/webhook/x", "teams"),
        ("https://contoso.webhook.office.com/webhookb2/x", "teams"),
        ("https://hooks.slack.com.evil.example/", None),
        ("https://x.example/hooks.slack.com/", None),
        ("https://[", None),
        ("", None),
    ],
)
def test_a_service_is_known_by_its_url(url: str, known: str | None) -> None:
    assert reads(url) == known


@pytest.mark.req("G-22")
def test_a_chats_url_without_its_format_is_pointed_out_and_not_quoted() -> None:
    found = read("url: 'https://hooks.slack.com/services/T0/B0/TOKEN'")
    (warning,) = found.warnings
    assert "format: slack" in warning
    assert "TOKEN" not in warning
    assert len(found.endpoints) == 1, "it is a hint and no refusal"


@pytest.mark.req("G-22")
@pytest.mark.parametrize(
    "change", [{"routing_key": ""}, {"format": "slack"}, {"format": "mail"}, {"routing_key": "plain"}]
)
def test_a_published_set_is_checked_too(change: dict[str, str]) -> None:
    plain = to_document(read("format: pagerduty, routing_key: env:PD_KEY"))
    plain["endpoints"][0].update(change)
    with pytest.raises(ConfigError):
        from_document(plain)


@pytest.mark.req("G-06", "F-11")
def test_what_can_block_does_not_do_is_said() -> None:
    (late,) = read("url: 'https://x.example/', can_block: true, when: 'verdict.decision == \"deny\"'").warnings
    assert "evaluated before there is a verdict" in late
    (idle,) = read("url: 'https://x.example/', on_failure: deny").warnings
    assert "no agent waits for the endpoint" in idle
    assert read("url: 'https://x.example/', can_block: true, on_failure: deny").warnings == ()


@pytest.mark.req("G-06", "P-13")
@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest",
        "https://[::ffff:169.254.169.254]/",
        "http://metadata.google.internal/x",
        "http://[fe80::1]/",
        "http://0.0.0.0/",
        "http://224.0.0.1/",
    ],
)
def test_what_can_never_be_a_target_is_refused_when_the_file_loads(url: str) -> None:
    (problem,) = read(f"url: '{url}'").problems
    assert "can never be a target" in str(problem) or "metadata name" in str(problem)
    (problem,) = parse_hook_file(f"hooks: [{{id: a, on: '*', http: '{url}'}}]", "user").problems
    assert problem.path == "hooks[0].http"


@pytest.mark.req("G-06")
@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/x", "http://[::1]:9000/", "http://localhost:9000/", "http://[fd00::1]/"]
)
def test_a_private_target_that_nothing_opens_is_pointed_out(url: str) -> None:
    found = read(f"url: '{url}', can_block: true")
    (warning,) = found.warnings
    assert "which is not in the allow list" in warning
    assert len(found.endpoints) == 1, "another layer may open it"
    place = warning.partition('allow: ["')[2].partition('"')[0]
    opened = parse_hook_file(f"endpoints: [{{id: a, url: '{url}'}}]\nnetwork: {{allow: ['{place}']}}\n", "fleet")
    assert (opened.problems, opened.warnings) == ((), ())
