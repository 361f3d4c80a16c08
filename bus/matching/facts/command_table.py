"""The options and operands by which programs take passwords; `command_secrets` reads lines by this table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

Span = tuple[int, int, int]
"""The index of a word, and the offsets at which the secret in it begins and ends."""


class ProgramSecrets(NamedTuple):
    """The secrets of one program."""

    secret: frozenset[str] = frozenset()
    """Options whose value is a secret: `-p X`, and for one letter also `-pX`."""
    exact: frozenset[str] = frozenset()
    """As `secret`, but the value is never in the same word: `openssl -k X`, because `-key file` is another option."""
    attached: frozenset[str] = frozenset()
    """As `secret`, but the value is always in the same word: `mysql -pX`. At `-p` alone the program asks for it."""
    login: frozenset[str] = frozenset()
    """Options whose value is a name and a secret: `-u name:X`."""
    signs: str = ":"
    """The characters that may be between name and secret in `login`."""
    passes: frozenset[str] = frozenset()
    """Options whose value is a secret if it begins with `pass:`."""
    pairs: frozenset[str] = frozenset()
    """Options whose value is `name=X`."""
    verbs: frozenset[str] = frozenset()
    """The other fields count only after one of these words; if empty, always."""
    after: dict[str, int] = {}  # noqa: RUF012  (never changed)
    """Words that a secret follows, each with the secret's distance: 1 is the next word."""
    named: frozenset[str] = frozenset()
    """Words that are followed by a name and its value; the value is a secret if the name says so."""
    operands: Callable[[Sequence[str]], Iterator[Span]] | None = None
    """Finds secrets among the operands; its argument is the words after the program."""
    stdin: frozenset[str] = frozenset()
    """Words with which the program reads a secret from its standard input; `*`: always."""


def _program(
    secret: str = "",
    *,
    exact: str = "",
    attached: str = "",
    login: str = "",
    signs: str = ":",
    passes: str = "",
    pairs: str = "",
    verbs: str = "",
    after: dict[str, int] | None = None,
    named: str = "",
    operands: Callable[[Sequence[str]], Iterator[Span]] | None = None,
    stdin: str = "",
) -> ProgramSecrets:
    return ProgramSecrets(
        frozenset(secret.split()),
        frozenset(exact.split()),
        frozenset(attached.split()),
        frozenset(login.split()),
        signs,
        frozenset(passes.split()),
        frozenset(pairs.split()),
        frozenset(verbs.split()),
        after or {},
        frozenset(named.split()),
        operands,
        frozenset(stdin.split()),
    )


def _htpasswd(words: Sequence[str]) -> Iterator[Span]:
    """`htpasswd -b file user X`: the last operand."""
    if any(word[:1] == "-" and word[:2] != "--" and "b" in word for word in words) and len(words) > 2:
        yield len(words) - 1, 0, len(words[-1])


def _sqlplus(words: Sequence[str]) -> Iterator[Span]:
    """`sqlplus user/X@db`."""
    for place, word in enumerate(words):
        user, slash, rest = word.partition("/")
        if slash and user.strip("\"'") and rest and word[:1] != "-":
            start = len(user) + 1
            end = start + rest.find("@") if "@" in rest else len(word)
            yield place, start, end
            return


def _rdp(words: Sequence[str]) -> Iterator[Span]:
    """`xfreerdp /p:X`."""
    yield from ((place, 3, len(word)) for place, word in enumerate(words) if word.startswith("/p:"))


def _auth_type(words: Sequence[str]) -> Iterator[Span]:
    """`http -A bearer -a X`."""
    if "-A" in words or "--auth-type" in words:
        for place, word in enumerate(words[:-1]):
            if word in ("-a", "--auth"):
                yield place + 1, 0, len(words[place + 1])


def _cookies(words: Sequence[str]) -> Iterator[Span]:
    """`curl -b name=X`; without a `=` it is the name of a file."""
    for place, word in enumerate(words[:-1]):
        if word in ("-b", "--cookie") and "=" in words[place + 1]:
            yield place + 1, 0, len(words[place + 1])


def _first(words: Sequence[str]) -> Iterator[Span]:
    """`ConvertTo-SecureString X`."""
    if words and words[0][:1] != "-":
        yield 0, 0, len(words[0])


def _net(words: Sequence[str]) -> Iterator[Span]:
    r"""`net use Z: \\h\s X /user:me`, `net user me X /add`."""
    options = any(word[:1] == "/" for word in words)
    if words[:1] == ["use"]:
        share = any(word.lstrip("\"'")[:2] == "\\\\" for word in words)
        given = [
            n
            for n, word in enumerate(words)
            if n and word[:1] not in ("/", "*") and word[1:2] != ":" and word.strip("\"'")[:1] != "\\"
        ]
        yield from ((place, 0, len(words[place])) for place in given[:1] if share)
    elif words[:1] == ["user"] and len(words) > 2 and options and words[2][:1] not in ("/", "*"):
        yield 2, 0, len(words[2])


def _gcloud_key(words: Sequence[str]) -> Iterator[Span]:
    """`gcloud … --key X`; of `gcloud kms` it is the name of a key, and a value with a slash is a path."""
    for place, word in enumerate(words):
        if "kms" in words[:3]:
            return
        if word == "--key" and place + 1 < len(words) and "/" not in words[place + 1]:
            yield place + 1, 0, len(words[place + 1])
        elif word.startswith("--key=") and "/" not in word:
            yield place, 6, len(word)


def _config_credentials(words: Sequence[str]) -> Iterator[Span]:
    """`poetry config pypi-token.x X`, `composer config http-basic.x user X`."""
    for place, word in enumerate(words[:4]):
        name = word.partition(".")[0]
        if name in ("pypi-token", "github-oauth", "gitlab-token", "bearer") and place + 1 < len(words):
            yield place + 1, 0, len(words[place + 1])
        elif name == "http-basic" and place + 2 < len(words):
            yield place + 2, 0, len(words[place + 2])


def _minio(words: Sequence[str]) -> Iterator[Span]:
    """`mc alias set name url key X`, `mc config host add name url key X`."""
    start = 2 if words[:2] == ["alias", "set"] else 3 if words[:3] == ["config", "host", "add"] else 0
    if start and len(words) > start + 3:
        yield start + 3, 0, len(words[start + 3])


def _rclone(words: Sequence[str]) -> Iterator[Span]:
    """`rclone obscure X`, `rclone config create name type secret_access_key X`."""
    for place, word in enumerate(words[:-1]):
        if word == "obscure" or (
            place > 2 and word.endswith(("secret", "pass", "password", "token", "secret_access_key"))
        ):
            yield place + 1, 0, len(words[place + 1])


def _nuget(words: Sequence[str]) -> Iterator[Span]:
    """`nuget push package X`."""
    if words[:1] == ["push"] and len(words) > 2 and words[2][:1] != "-":
        yield 2, 0, len(words[2])


def _second(words: Sequence[str]) -> Iterator[Span]:
    """`radtest user X`."""
    if len(words) > 1:
        yield 1, 0, len(words[1])


def _domain_login(words: Sequence[str]) -> Iterator[Span]:
    """`impacket-psexec domain/user:X@host`."""
    for place, word in enumerate(words):
        name, colon, rest = word.partition(":")
        if colon and name and "@" in rest and word[:1] != "-":
            yield place, len(name) + 1, len(name) + 1 + rest.rindex("@")
            return


def _sonar(words: Sequence[str]) -> Iterator[Span]:
    """`sonar-scanner -Dsonar.login=X`."""
    for place, word in enumerate(words):
        if word.startswith(("-Dsonar.login=", "-Dsonar.token=")):
            yield place, word.index("=") + 1, len(word)


def _share(words: Sequence[str]) -> Iterator[Span]:
    """`smbclient //host/share X -U user`: the word behind the share."""
    for place, word in enumerate(words[:-1]):
        if word[:2] in ("//", "\\\\") and words[place + 1][:1] != "-":
            yield place + 1, 0, len(words[place + 1])


def _third(words: Sequence[str]) -> Iterator[Span]:
    """`isql source user X`."""
    if len(words) > 2 and not any(word[:1] == "-" for word in words[:3]):
        yield 2, 0, len(words[2])


def _dotnet(words: Sequence[str]) -> Iterator[Span]:
    """`dotnet nuget add source -p X`, where `dotnet run -p` names a project."""
    for place, word in enumerate(words[:-1]):
        if word in ("-p", "--password") and words[0] == "nuget":
            yield place + 1, 0, len(words[place + 1])


def _kept_secret(words: Sequence[str]) -> Iterator[Span]:
    """`pulumi config set --secret name X`: the last word."""
    if "set" in words and "--secret" in words and len(words) > 4:
        yield len(words) - 1, 0, len(words[-1])


EACH_PAIR: Final = -2
EACH_WORD: Final = -1
"""Values of `ProgramSecrets.after` for every following `name=X` (EACH_PAIR) or every following word (EACH_WORD)."""
_LOGIN: Final = _program("-p --password", verbs="login", stdin="--password-stdin")
PROGRAMS: Final[dict[str, ProgramSecrets]] = {
    name: entry
    for names, entry in {
        "docker podman nerdctl buildah skopeo helm oras crane regctl hub oc az cf ibmcloud": _LOGIN,
        "mongosh mongo mongodump mongorestore mongoexport mongoimport mongostat mongotop": _program("-p"),
        "redis-cli valkey-cli keydb-cli": _program(
            "-a", after={"auth": EACH_WORD, "requirepass": 1, "masterauth": 1, "primaryauth": 1}
        ),
        "ldapsearch ldapmodify ldapadd ldapdelete ldapwhoami ldapcompare ldapmodrdn ldapexop": _program("-w"),
        "ldappasswd": _program("-w -s -a"),
        "aws": _program(named="set"),
        "npm pnpm yarn": _program(named="set"),
        "git": _program(named="config"),
        "setx": _program(named="setx"),
        "set": _program(named="-x -gx -xg -Ux -xU"),
        "http https httpie xh xhs": _program(login="-a --auth", operands=_auth_type),
        "curl": _program(
            "--oauth2-bearer",
            login="-u --user -U --proxy-user -E --cert --tlsuser",
            exact="--pass --proxy-pass --tlspassword",
            operands=_cookies,
        ),
        "wget": _program(login="--user"),
        "smbclient rpcclient smbget smbmap smbcacls wmic winexe": _program(
            login="-U --user", signs="%", operands=_share
        ),
        "openssl": _program(exact="-k -K", passes="-pass -passin -passout -password -passwd", stdin="stdin"),
        "zip unzip zipcloak zipnote funzip": _program("-P"),
        "7z 7za 7zr 7zz p7zip": _program(attached="-p"),
        "rar unrar": _program(attached="-p -hp"),
        "htpasswd": _program(operands=_htpasswd),
        "sshpass": _program("-p"),
        "mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlsh mysqlpump mysqlbinlog mysqlcheck mariadb mariadb-dump"
        " mariadb-admin mariadb-import mycli": _program(attached="-p", after={"password": 1}),
        "sqlcmd bcp osql tsql p4": _program("-P"),
        "sqlplus sqlldr expdp impdp": _program(operands=_sqlplus),
        "cqlsh rabbitmqadmin beeline twine ncftp ncftpput ncftpget ncftpls rdesktop useradd usermod yt-dlp youtube-dl"
        " psexec evil-winrm crackmapexec nxc hydra neo4j cypher-shell": _program("-p"),
        "rabbitmqctl": _program(after={"add_user": 2, "change_password": 2, "authenticate_user": 2}),
        "lftp": _program(login="-u", signs=","),
        "mosquitto_pub mosquitto_sub mosquitto_rr ipmitool": _program("-P"),
        "xfreerdp wfreerdp xfreerdp3": _program(operands=_rdp),
        "snmpget snmpwalk snmpset snmpbulkwalk snmpgetnext snmptrap": _program("-A -X -c"),
        "keytool jarsigner": _program(
            exact="-storepass -keypass -srcstorepass -deststorepass -srckeypass -destkeypass"
        ),
        "ssh-keygen": _program("-N -P"),
        "plink pscp psftp putty": _program(exact="-pw"),
        "pdftk": _program(after={"input_pw": 1, "owner_pw": 1, "user_pw": 1}),
        "nmcli": _program(after={"password": 1}),
        "wpa_passphrase": _program(after={"wpa_passphrase": 2}),
        "vault": _program(after={"login": 1}),
        "bw": _program(after={"unlock": 1, "login": 2}),
        "gh": _program("-b --body", verbs="secret", stdin="--with-token set"),
        "doctl": _program("-t --access-token", verbs="auth"),
        "kubectl k": _program(pairs="--from-literal", verbs="secret"),
        "fly flyctl": _program(verbs="secrets", after={"set": EACH_PAIR}),
        "convertto-securestring": _program(operands=_first),
        "sudo": _program(stdin="-S --stdin"),
        "passwd": _program(stdin="*"),
        "chpasswd": _program(stdin="*"),
        "requirepass masterauth": _program(operands=_first),
        "net": _program(operands=_net),
        "gcloud": _program(operands=_gcloud_key),
        "snowsql couchbase-cli sfdx sf": _program("-p"),
        "isql": _program("-P", operands=_third),
        "iwconfig": _program(after={"key": 1}),
        "consul etcdctl": _program(named="put"),
        "pulumi": _program(operands=_kept_secret),
        "twilio": _program(after={"login": 2}),
        "java jenkins-cli": _program(login="-auth"),
        "supabase": _program("-p --password", verbs="link"),
        "security": _program(
            "-p -w",
            verbs="unlock-keychain create-keychain add-generic-password add-internet-password set-keychain-password",
        ),
        "xcrun": _program("-p", verbs="altool notarytool"),
        "schtasks": _program(exact="/rp"),
        "signtool": _program(exact="/p"),
        "nuget": _program(exact="-k", operands=_nuget, after={"setapikey": 1}),
        "dotnet": _program(after={"user-secrets": 3}, exact="-k", operands=_dotnet),
        "cargo": _program(after={"login": 1}),
        "poetry composer": _program("-p", operands=_config_credentials, verbs="publish"),
        "snyk": _program(after={"auth": 1}),
        "ngrok": _program(after={"authtoken": 1, "add-authtoken": 1}),
        "codecov": _program("-t"),
        "samba-tool": _program(verbs="user", after={"create": 2, "add": 2}),
        "radtest": _program(operands=_second),
        "mosquitto_passwd": _program(operands=_htpasswd),
        "mc": _program(operands=_minio),
        "rclone": _program(operands=_rclone),
        "qpdf": _program(after={"--encrypt": EACH_WORD}),
        "pdftotext pdfinfo": _program(exact="-upw -opw"),
        "wpa_cli": _program(after={"psk": 1, "password": 1}),
        "networksetup": _program(after={"-setairportnetwork": 3}),
        "neo4j-admin": _program(after={"set-initial-password": 1}),
        "netlify": _program("--auth", after={"env:set": 2}),
        "doppler": _program(verbs="secrets", after={"set": EACH_PAIR}),
        "glab": _program(verbs="variable", after={"set": 2}),
        "impacket-psexec impacket-smbexec impacket-wmiexec impacket-secretsdump psexec.py": _program(
            operands=_domain_login
        ),
        "sonar-scanner": _program(operands=_sonar),
        "wrangler": _program(stdin="put"),
        "vercel": _program(stdin="add"),
        "pass gopass": _program(stdin="insert"),
        "secret-tool": _program(stdin="store"),
        "op": _program(stdin="signin"),
        "ssh-add": _program(stdin="-"),
        "gpg gpg2": _program(stdin="--passphrase-fd"),
        "cryptsetup kinit smbpasswd keepassxc-cli vncpasswd logstash-keystore elasticsearch-keystore": _program(
            stdin="*"
        ),
        "echo printf": _program(),
    }.items()
    for name in names.split()
}
COMMAND_WORDS: Final = frozenset(
    {"net", "pass", "security", "mc", "cargo", "set", "echo", "printf", "passwd", "requirepass", "masterauth"}
)
"""Words that name a program only at the beginning of a command, because of `aws configure set`."""
ONLY_WITH: Final = {
    "aws npm pnpm yarn": r"[^\n]*[ \t]set[ \t]",
    "git": r"[^\n]*[ \t]config[ \t]",
    "set": r"[ \t]+-",
    "net": r"[ \t]+user?[ \t]",
    "pass gopass": r"[ \t]+insert\b",
    "mc": r"[ \t]+(?:alias|config)[ \t]",
    "dotnet cargo": r"[^\n]*[ \t](?:user-secrets|push|login|nuget)[ \t]",
    "java jenkins-cli": r"[^\n]*[ \t]-auth[ \t]",
    "consul etcdctl": r"[^\n]*[ \t]put[ \t]",
    "op": r"[ \t]+signin\b",
    "poetry composer": r"[^\n]*[ \t](?:config|publish)[ \t]",
    "security": r"[^\n]*(?:keychain|password)",
    "gcloud": r"[^\n]*--key\b",
    "sudo": r"[^\n]*[ \t](?:-s|--stdin)\b",
    "docker podman nerdctl buildah skopeo helm oras crane regctl hub oc az cf ibmcloud": r"[^\n]*[ \t]login\b",
    "kubectl k gh doctl fly flyctl": r"[^\n]*[ \t](?:secrets?|auth)[ \t]",
    "echo printf": None,
}
"""Programs that are looked for only with this pattern behind them (lower case); with None, only beside another program."""
