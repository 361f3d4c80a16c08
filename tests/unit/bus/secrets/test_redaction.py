"""Canaries: secrets of every known form, in every position, never come out; ordinary text comes out as it went in.

Every sample is made up here and put together from pieces, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import json
import random
import string
import time
from collections.abc import Callable

import pytest

from bus.secrets.redaction import TEXT_LIMIT, is_secret_name, redact, redact_text, redact_url, redact_whole
from bus.secrets.replacements import REDACTED
from tests.support.rows import rows

pytestmark = pytest.mark.req("F-15")

RNG = random.Random("canaries")
ALNUM = string.ascii_letters + string.digits


def chars(count: int, alphabet: str = ALNUM) -> str:
    return "".join(RNG.choice(alphabet) for _ in range(count))


BODY = chars(40)
PEM = "-----BEGIN {0}PRIVATE KEY-----\n{1}\n{1}\n-----END {0}PRIVATE KEY-----"
# kind -> samples that are known by their own form
TOKENS: dict[str, list[str]] = {
    "github-token": [
        "ghp" + "_" + chars(36),
        "gho" + "_" + chars(36),
        "github" + "_pat_" + chars(22) + "_" + chars(59),
    ],
    "gitlab-token": ["glpat" + "-" + chars(20)],
    "slack-token": ["xoxb" + "-" + "2" * 12 + "-" + chars(24), "xoxp" + "-1-2-3-" + chars(32), "xapp" + "-1-A-" + BODY],
    "aws-key": ["AKIA" + chars(16, string.ascii_uppercase + string.digits), "ASIA" + chars(16, string.ascii_uppercase)],
    "google-key": ["AIza" + chars(35)],
    "google-token": ["ya29." + "a0" + chars(60), "GOCSPX" + "-" + chars(28)],
    "api-key": [
        "sk" + "-ant-api03-" + chars(80),
        "sk" + "-proj-" + BODY,
        "sk" + "-" + chars(48),
        "xai" + "-" + BODY,
        "SG." + chars(22) + "." + chars(43),
        "ATATT3" + chars(60),
    ],
    "stripe-key": ["sk" + "_live_" + chars(24), "rk" + "_test_" + chars(24)],
    "webhook-secret": ["whsec" + "_" + chars(43) + "="],
    "registry-token": ["npm" + "_" + chars(36), "pypi" + "-" + chars(80)],
    "telegram-token": ["123456789" + ":AA" + chars(33)],
    "jwt": ["eyJ" + chars(33) + ".eyJ" + chars(60) + "." + chars(43), "eyJ" + chars(30) + ".." + chars(16) + ".x.y"],
    "private-key": [
        *(PEM.format(kind, BODY) for kind in ("", "RSA ", "OPENSSH ", "EC ")),
        "AGE-SECRET" + "-KEY-1" + chars(58, string.ascii_uppercase),
    ],
}
SAMPLES = [(kind, sample) for kind, samples in TOKENS.items() for sample in samples]

AROUND: list[Callable[[str], str]] = [
    lambda secret: secret,
    lambda secret: f"before {secret} after",
    lambda secret: f"line\n{secret}\nline",
    lambda secret: f"({secret}), [{secret}] and '{secret}'.",
    lambda secret: f"https://example.com/x?next={secret}&y=1",
    lambda secret: f"https://{secret}@example.com/repo.git",
    lambda secret: json.dumps({"a": [secret, {"b": f"x={secret};"}]}),
    lambda secret: json.dumps(json.dumps({"a": secret})),
    lambda secret: f"export FOO_TOKEN={secret} && deploy",
    lambda secret: f"curl -H 'Authorization: Bearer {secret}' https://example.com",
    lambda secret: "x " * 30_000 + secret,
    lambda secret: secret + " x" * 50_000,
]


def survives(secret: str, text: str) -> bool:
    """Whether any 12 characters in a row of the secret's random part are still to be read."""
    pieces = secret.replace("\\n", "\n").split("\n")[1:-1] or [secret]
    return any(piece[at : at + 12] in text for piece in pieces for at in range(4, len(piece) - 11, 4))


@rows(("kind", "secret"), SAMPLES, ids=[f"{kind}-{at}" for at, (kind, _) in enumerate(SAMPLES)])
def test_canary_never_survives(kind: str, secret: str) -> None:
    assert redact_text(secret) == f"[redacted:{kind}]"
    for around in AROUND:
        shown = redact_text(around(secret))
        assert not survives(secret, shown), shown[:300]
    for value in ({"x": {"y": [secret]}}, [secret], {secret: 1}, (secret,), secret.encode(), {"token": secret}):
        assert not survives(secret, json.dumps(redact(value)))
    assert not survives(secret, redact_url(f"https://example.com/{secret}/x?a={secret}#b={secret}"))


# A password without any form of its own: known by its place alone.
WORD = "hunter2-Correct+Horse"


@rows(
    "template",
    [
        "export FOO_TOKEN={}",
        "export FOO_TOKEN='{}' BAR=1",
        'set -x; AWS_SECRET_ACCESS_KEY="{}" aws s3 ls',
        "PGPASSWORD={} psql -h db",
        "DB_PASS={}",
        "SIGNING_KEY={}",
        "login --password {} --verbose",
        "login --password={} --verbose",
        'login --db-password "{} and more"',
        "tool --api-key {}",
        "openssl rsa -passin env -pass {}",
        "sshpass -p {} ssh host",
        "mysql -u root -p{} db",
        "docker login -u me -p {} registry.example.com",
        "podman login registry.example.com -p={} -u me",
        "curl -u admin:{} https://example.com",
        'curl --user "admin:{}" https://example.com',
        "curl -H 'X-Api-Key: {}' https://example.com",
        'curl -H "Cookie: a=1; sid={}; b=2" https://example.com',
        "Authorization: Digest username=me, response={}",
        "> Cookie: theme=dark; sid={}\n> Host: x",
        '< Cookie: theme="dark"; sid={}\n< Host: x',
        "https://{}@example.com/x",
        "Set-Cookie: sid={}; Path=/; HttpOnly",
        "Authorization: Bearer {}",
        "authorization = Token {}",
        "got bearer {} from the vault",
        "postgres://admin:{}@db.internal:5432/app",
        "amqp://admin:p/{}@mq/vhost",
        "redis://:{}@localhost:6379/0",
        "https://example.com/hook?access_token={}&page=2",
        "https://example.com/hook?page=2&sig={}",
        '{{"password": "{}", "page": 2}}',
        "{{'client_secret': '{}'}}",
        '"{{\\"password\\": \\"{}\\", \\"page\\": 2}}"',
        "{{password: {}}}",
        "password: {}\nuser: me",
        "password: |\n  {}\n  {}\nuser: me",
        "api_key := '{}'",
        "machine example.com login me password {}",
        "AccountName=x;AccountKey={};EndpointSuffix=y",
        "https://hooks.slack.com/services/T000/B000/{}",
        "https://discord.com/api/webhooks/123456/{}",
    ],
)
def test_secrets_known_by_their_place_never_survive(template: str) -> None:
    secret = WORD.replace("+", "-") if "https://" in template else WORD
    shown = redact_text(template.format(secret, secret))
    assert "hunter2" not in shown, shown
    assert "Horse" not in shown, shown
    assert "[redacted" in shown
    assert redact_text(shown) == shown, "redacting twice changes nothing"


@pytest.mark.parametrize(
    "text",
    [
        "cat: /etc/passwd: Permission denied",
        "passwd: all authentication tokens updated",
        "passwd: password updated successfully",
        "chpasswd: cannot lock /etc/passwd; try again later",
        "/run/secrets/db_password: No such file or directory",
        "open token: operation not permitted",
        "grep: /etc/shadow-passwd: Is a directory",
    ],
)
def test_a_file_error_is_no_secret(text: str) -> None:
    assert redact_text(text) == text


def test_a_long_text_is_redacted_to_its_end() -> None:
    lines = [f"{number} token={WORD}" for number in range(10_000)]
    shown = redact_whole({"stdout": "\n".join(lines)})
    assert isinstance(shown, dict)
    assert shown["stdout"].count("\n") == len(lines) - 1
    assert "hunter2" not in shown["stdout"]
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "A" * 70 + ("\n" + "B" * 70) * 2_000 + "\n-----END RSA PRIVATE KEY-----"
    assert "B" * 70 not in str(redact_whole("x" * 100_000 + f"\n{key}\ndone"))


def test_basic_credentials_are_recognised_by_what_they_decode_to() -> None:
    assert redact_text("sent Basic dXNlcjpodW50ZXIy to it") == "sent Basic [redacted] to it"
    assert redact_text("Basic understanding of basic programming") == "Basic understanding of basic programming"


@rows(
    "text",
    [
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "commit b2fa7b8719fb75d326b591077f5d1b385cfcdfae fixed #12",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "123e4567-e89b-12d3-a456-426614174000",
        "/home/me/src/auth/token_store.py:12: in get_token",
        "/Users/me/.ssh/known_hosts and ./secrets/README.md",
        "C:\\Users\\me\\project\\tokens.txt",
        "toolu_01A09q90qw90lq917835lq9 sess-abc123 evt_01HZX3",
        "https://example.com:8443/a/b@v2?page=2&sort=name#top",
        "git@github.com:org/repo.git and ssh://git@github.com/org/repo.git",
        "https://registry.npmjs.org/@scope/pkg",
        '{"usage": {"input_tokens": 512, "output_tokens": 34, "max_tokens": 4096}}',
        "docker run --user 1000:1000 -v /a:/b image",
        "PWD=/work OLDPWD=/tmp PATH=/usr/bin:/bin",
        "def login(token: str | None = None, password: str = '') -> bool:",
        "if token == expected and secret != other:",
        "export TOKEN=$GITHUB_TOKEN PASSWORD=${DB_PASSWORD}",
        "GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}",
        "TOKEN=$(gh auth token)",
        "password = os.environ['DB_PASSWORD']; secret=os.getenv('S'); api_key = os.environ.get('K')",
        "const token = process.env.API_TOKEN; password: process.env['P']; secret = ENV['S']",
        "tokenizer=cl100k token_count=12 author=me keyboard: us primary_key: id",
        "Bearer authentication needs a bearer token",
        "WWW-Authenticate: Bearer realm=example",
        "std::token::parse, risk-assessment-of-a-task-with-a-disk-and-a-desk",
        "make --bypass cache --compass north -token",
        "rm -rf build && pytest -q -k 'not slow' --password-file /run/x",
        "",
    ],
)
def test_benign_text_stays(text: str) -> None:
    assert redact_text(text) == text


def test_data_is_redacted_by_the_names_of_its_keys() -> None:
    data = {
        "password": WORD,
        "dbPassword": WORD,
        "API-Key": [WORD],
        "x-amz-security-token": WORD,
        "headers": {"Authorization": WORD, "Cookie": WORD, "Accept": "text/plain"},
        "pairs": [["Authorization", WORD], ["Accept", "text/plain"]],
        "env": [{"name": "DB_PASSWORD", "value": WORD}, {"name": "HOME", "value": "/root"}],
        "argv": ["tool", "--token", WORD, "--verbose"],
        "private_key": {"d": WORD},
        "pin": {"access_token": 123456},
        "usage": {"input_tokens": 512, "cached": True, "cost": 0.5},
        "required": ["user", "password", "token"],
        "session_id": "sess-1",
        "token": None,
        "secret": "",
    }
    assert redact(data) == {
        "password": REDACTED,
        "dbPassword": REDACTED,
        "API-Key": REDACTED,
        "x-amz-security-token": REDACTED,
        "headers": {"Authorization": REDACTED, "Cookie": REDACTED, "Accept": "text/plain"},
        "pairs": [["Authorization", REDACTED], ["Accept", "text/plain"]],
        "env": [{"name": "DB_PASSWORD", "value": REDACTED}, {"name": "HOME", "value": "/root"}],
        "argv": ["tool", "--token", REDACTED, "--verbose"],
        "private_key": REDACTED,
        "pin": {"access_token": REDACTED},
        "usage": {"input_tokens": 512, "cached": True, "cost": 0.5},
        "required": ["user", "password", "token"],
        "session_id": "sess-1",
        "token": None,
        "secret": "",
    }
    assert data["password"] == WORD, "the original is not touched"


def test_objects_and_depth_carry_nothing_past() -> None:
    assert WORD not in str(redact([ValueError(f"password={WORD}"), {f"token={WORD}"}]))
    nested: object = {"password": WORD}
    for _ in range(2000):
        nested = [nested]
    assert WORD not in str(redact(nested))


@pytest.mark.parametrize(
    "name", ["token", "GITHUB_TOKEN", "accessToken", "secrets", "password2", "X-Api-Key", "apikey"]
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["max_tokens", "tokenizer", "author", "key", "keys", "pwd", "session_id", "secretary"])
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


def test_url() -> None:
    url = "https://me:pw@h.example:8443/a?token=x&page=2&next=https%3A%2F%2Fu%3Ap%40h#access_token=y&z=1"
    shown = f"https://{REDACTED}@h.example:8443/a?token={REDACTED}&page=2&next={REDACTED}#access_token={REDACTED}&z=1"
    assert redact_url(url) == shown
    assert redact_url("https://h.example/a?page=2") == "https://h.example/a?page=2"


def test_what_is_not_scanned_is_not_shown() -> None:
    secret = "ghp" + "_" + chars(36)
    for offset in range(-60, 60, 7):
        text = "x" * (TEXT_LIMIT + offset) + " " + secret + " y" * 5000
        shown = redact_text(text)
        assert "ghp_" not in shown
        assert len(shown) < TEXT_LIMIT + 100
    assert redact_text("a" * 100_000).endswith(f"[{100_000 - TEXT_LIMIT + 4096} more characters, not shown]")


@rows(
    "piece",
    [
        *(
            "a",
            " ",
            '"',
            "\\",
            '\\"',
            "-",
            "--a",
            " --a",
            "-a-",
            "://",
            "://a:b",
            "://a:x/",
            "@",
            "&a=",
            "=",
            ": ",
            "_key",
        ),
        *("password", "password=", 'password="', "password=\\", "password: |\n ", "token ", "--token ", "secret: \\\\"),
        *(
            "-----BEGIN PRIVATE KEY-----",
            "-----BEGIN ",
            "-----END ",
            "eyJaaaaaaaaaaaa.",
            "ghp_",
            "github_pat_",
            "xoxb-",
        ),
        *("sk-", "AKIA", "Bearer ", "basic ", "basic aaaa", "cookie: ", "cookie: '", "\ncookie:", "mysql -", "mysql  "),
        *("sshpass -p", "login a ", "login " + "a" * 190, "curl -u a", "?sig=", "https://hooks.slack.com/services/"),
        *("whsec_aaaaaaaaaaaaaaaaaa", "123456789", "1:AA", "bot1234567:AA", "passwdpasswd" + "a" * 31, "${", "<a "),
    ],
)
def test_cost_is_bounded(piece: str) -> None:
    text = (piece * (TEXT_LIMIT // len(piece) + 1))[:TEXT_LIMIT]
    started = time.process_time()
    redact_text(text)
    redact_text(text + "!")
    # About 0.1 s at most where written; a quadratic pattern takes minutes on 64 KiB.
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('let secret_key: &str = "IuGIWgIprVFIV4BL"', 'let secret_key: &str = "[redacted]"'),
        ('const apiKey: string = "Q8xL4tR7wB1nC5yJ"', 'const apiKey: string = "[redacted]"'),
        ("password: Optional[str] = 'abc12345'", "password: Optional[str] = '[redacted]'"),
        ("password: abc=def", "password: [redacted]"),
        ("api_key: Optional[str] = None", "api_key: Optional[str] = None"),
    ],
)
def test_a_value_behind_the_type_of_its_name_is_replaced(text: str, shown: str) -> None:
    assert redact_text(text) == shown
