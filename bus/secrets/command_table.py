"""Where programs take passwords on their command lines; `command_lines` reads lines by this table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

Span = tuple[int, int, int]
"""The number of a word, and where in it the secret begins and ends."""


class Program(NamedTuple):
    """Where a program takes secrets. Names of options are separated by blanks."""

    secret: frozenset[str] = frozenset()
    """The option's value is a secret: `-p X`, and for one letter `-pX` too."""
    exact: frozenset[str] = frozenset()
    """As `secret`, but never within one word, since other options begin alike: `openssl -k X` and `-key file`."""
    attached: frozenset[str] = frozenset()
    """Only within one word: `mysql -pX`; alone the program asks for it."""
    login: frozenset[str] = frozenset()
    """The value is a name and a secret: `-u name:X`."""
    signs: str = ":"
    """What may be between name and secret."""
    passes: frozenset[str] = frozenset()
    """The value is a secret if it begins with `pass:`."""
    pairs: frozenset[str] = frozenset()
    """The value is `name=X`."""
    verbs: frozenset[str] = frozenset()
    """The other fields count after one of these words only; empty: always."""
    after: dict[str, int] = {}  # noqa: RUF012  (never changed)
    """By word, which of the next words is a secret: 1 is the next one."""
    named: frozenset[str] = frozenset()
    """After this word comes a name, and then its value, which is a secret if the name says so."""
    operands: Callable[[Sequence[str]], Iterator[Span]] | None = None
    """Finds secrets that no option announces; gets the program's own words."""
    stdin: frozenset[str] = frozenset()
    """With one of these words it reads a secret from its standard input; `*` always."""


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
) -> Program:
    return Program(
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


EACH_PAIR: Final = -2
EACH_WORD: Final = -1
"""Instead of a number in `Program.after`: every `name=X`, and every word that follows."""
_LOGIN: Final = _program("-p --password", verbs="login", stdin="--password-stdin")
PROGRAMS: Final[dict[str, Program]] = {
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
        "smbclient rpcclient smbget smbmap smbcacls wmic winexe": _program(login="-U --user", signs="%"),
        "openssl": _program(exact="-k -K", passes="-pass -passin -passout -password -passwd"),
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
        "gh": _program("-b --body", verbs="secret", stdin="--with-token"),
        "doctl": _program("-t --access-token", verbs="auth"),
        "kubectl k": _program(pairs="--from-literal", verbs="secret"),
        "fly flyctl": _program(verbs="secrets", after={"set": EACH_PAIR}),
        "convertto-securestring": _program(operands=_first),
        "sudo": _program(stdin="-S --stdin"),
        "passwd": _program(stdin="--stdin"),
        "chpasswd": _program(stdin="*"),
        "requirepass masterauth": _program(operands=_first),
        "echo printf": _program(),
    }.items()
    for name in names.split()
}
COMMAND_WORDS: Final = frozenset({"set", "echo", "printf", "passwd", "requirepass", "masterauth"})
"""Words that are programs only at the beginning of a command: `aws configure set`."""
ONLY_WITH: Final = {
    "aws npm pnpm yarn": r"[^\n]*[ \t]set[ \t]",
    "git": r"[^\n]*[ \t]config[ \t]",
    "set": r"[ \t]+-",
    "sudo": r"[^\n]*[ \t](?:-s|--stdin)\b",
    "docker podman nerdctl buildah skopeo helm oras crane regctl hub oc az cf ibmcloud": r"[^\n]*[ \t]login\b",
    "kubectl k gh doctl fly flyctl": r"[^\n]*[ \t](?:secrets?|auth)[ \t]",
    "echo printf": None,
}
"""What has to follow a program in its line, in small letters; others are read at once. None: others on the line decide."""
