"""Passwords on command lines by program and option, and look-alikes that stay (B17)."""

from __future__ import annotations

import json
import time

import pytest

from bus.secrets.redaction import redact, redact_text, redact_whole
from tests.support.rows import rows

pytestmark = pytest.mark.req("F-15", "X-10")

SECRETS = r"""
docker login -u me -p S3cretPw reg.io
docker login -uroot -pS3cretPw
podman login --password S3cretPw -u me reg
docker login --password=S3cretPw
echo S3cretPw | docker login --password-stdin
mongosh -u me -p S3cretPw --host db
mongosh "mongodb://me:S3cretPw@h/db"
mongodump --password S3cretPw
mongorestore -pS3cretPw
redis-cli -a S3cretPw ping
redis-cli -h db -p 6379 -a S3cretPw ping
redis-cli --pass S3cretPw
redis-cli -u redis://:S3cretPw@h:6379
ldapsearch -x -D cn=admin -w S3cretPw -b dc=x
ldapmodify -w S3cretPw
aws configure set aws_secret_access_key S3cretPw
aws configure set aws_secret_access_key S3cretPw --profile x
aws --profile x configure set default.aws_session_token S3cretPw
http -a user:S3cretPw example.org
http --auth user:S3cretPw GET example.org
http -a user:S3cretPw --auth-type digest x
https -A bearer -a S3cretPw example.org
xh -a user:S3cretPw example.org
curl -u user:S3cretPw https://x
curl -uuser:S3cretPw https://x
curl --user user:S3cretPw https://x
curl --user=user:S3cretPw https://x
curl -sSfu user:S3cretPw https://x
curl -U proxy:S3cretPw https://x
curl --proxy-user proxy:S3cretPw https://x
curl --oauth2-bearer S3cretPw https://x
curl -H "Authorization: Bearer S3cretPw1" https://x
curl -H 'X-Api-Key: S3cretPw' https://x
curl -H "Authorization: token S3cretPw" https://x
curl -d 'password=S3cretPw&x=1' https://x
curl -b "session=S3cretPw" https://x
curl --cookie "sid=S3cretPw" https://x
curl -E cert.pem:S3cretPw https://x
curl --pass S3cretPw https://x
smbclient -U user%S3cretPw //h/s
smbclient //h/s -U 'DOM/user%S3cretPw'
smbclient --user=user%S3cretPw //h/s
smbclient //h/s S3cretPw -U user
isql dsn user S3cretPw
consul kv put app/password S3cretPw
dotnet nuget add source -u user -p S3cretPw https://x
iwconfig wlan0 key s:S3cretPw
secret-tool store --label x <<< S3cretPw
op signin --raw <<< S3cretPw
pulumi config set --secret dbPassword S3cretPw
twilio login AC1 S3cretPw
java -jar jenkins-cli.jar -auth user:S3cretPw list-jobs
netlify deploy --auth S3cretPw
supabase link -p S3cretPw
rpcclient -U user%S3cretPw h
openssl enc -aes-256-cbc -k S3cretPw -in a -out b
openssl enc -pass pass:S3cretPw -in a
openssl rsa -in k -passin pass:S3cretPw -passout pass:S3cretPw
openssl pkcs12 -export -password pass:S3cretPw
zip -P S3cretPw a.zip b
zip -r -PS3cretPw a.zip b
unzip -P S3cretPw a.zip
7z a -pS3cretPw a.7z b
7z x -pS3cretPw a.7z
7za a a.7z b -pS3cretPw -mhe
htpasswd -b f u S3cretPw
htpasswd -cb f u S3cretPw
htpasswd -nb u S3cretPw
htpasswd -bnBC 10 "" S3cretPw
sshpass -p S3cretPw ssh h
sshpass -pS3cretPw ssh h
mysql -uroot -pS3cretPw db
mysql -u root --password=S3cretPw db
mysqldump -pS3cretPw db
mariadb -pS3cretPw db
mysqladmin -u root password S3cretPw
psql postgres://u:S3cretPw@h/db
PGPASSWORD=S3cretPw psql -h db
psql "host=h user=u password=S3cretPw"
wget --password=S3cretPw x
wget --http-password=S3cretPw --user=u x
wget --ftp-password S3cretPw x
git remote add o https://u:S3cretPw@github.com/x
git clone https://S3cretPw1234567890abcdef@github.com/x
git -c http.extraheader="AUTHORIZATION: bearer S3cretPw" clone x
FOO_TOKEN=S3cretPw ./run
export GITHUB_TOKEN=S3cretPw
env DB_PASS=S3cretPw ./x
set -x MY_SECRET S3cretPw
{"password": "S3cretPw"}
{"api_key":"S3cretPw"}
{\"token\": \"S3cretPw\"}
password: S3cretPw
  api-key: "S3cretPw"
token: 'S3cretPw'
gpg --passphrase S3cretPw -c x
gpg --batch --passphrase=S3cretPw x
ansible-playbook x -e ansible_password=S3cretPw
ansible-playbook x -e "ansible_become_pass=S3cretPw"
kubectl create secret generic s --from-literal=password=S3cretPw
kubectl create secret generic s --from-literal key=S3cretPw
kubectl config set-credentials u --token=S3cretPw
kubectl --token S3cretPw get pods
kubectl create secret docker-registry r --docker-password=S3cretPw
helm repo add x https://y --username u --password S3cretPw
helm install x --set db.password=S3cretPw
vault login S3cretPw1234
vault kv put secret/x password=S3cretPw
VAULT_TOKEN=S3cretPw vault read x
gh secret set FOO --body S3cretPw
gh secret set FOO -b S3cretPw
gh auth login --with-token S3cretPw
npm config set //registry.npmjs.org/:_authToken S3cretPw
npm login --password S3cretPw
//registry.npmjs.org/:_authToken=S3cretPw
az login -u me -p S3cretPw
az login --service-principal -u a -p S3cretPw --tenant t
sqlcmd -S h -U sa -P S3cretPw -Q x
bcp t out f -S h -U sa -PS3cretPw
sqlplus user/S3cretPw@db
sqlplus system/S3cretPw as sysdba
clickhouse-client --password S3cretPw
cqlsh -u u -p S3cretPw
influx -username u -password S3cretPw
rabbitmqadmin -u u -p S3cretPw list
rabbitmqctl add_user u S3cretPw
rabbitmqctl change_password u S3cretPw
ftp ftp://u:S3cretPw@h
lftp -u user,S3cretPw h
ncftpput -u u -p S3cretPw h
mosquitto_pub -u u -P S3cretPw -t x
mount -t cifs //h/s /m -o username=u,password=S3cretPw
xfreerdp /u:me /p:S3cretPw /v:h
rdesktop -u u -p S3cretPw h
ipmitool -I lanplus -H h -U u -P S3cretPw power on
snmpget -v3 -A S3cretPw -X S3cretPw h
echo 'root:S3cretPw' | chpasswd
echo "S3cretPw" | sudo -S ls
useradd -p S3cretPw u
usermod --password S3cretPw u
passwd --stdin <<< S3cretPw
keytool -storepass S3cretPw -keypass S3cretPw
jarsigner -storepass S3cretPw a
unrar x -pS3cretPw a.rar
rar a -hpS3cretPw a.rar b
qpdf --password=S3cretPw a b
pdftk a input_pw S3cretPw output b
twine upload -u u -p S3cretPw dist/*
hub login -p S3cretPw
oc login -u u -p S3cretPw
oc login --token=S3cretPw
heroku config:set API_KEY=S3cretPw
fly secrets set X=S3cretPw
doctl auth init -t S3cretPw
doctl auth init --access-token S3cretPw
heroku config:set DB=postgres://u:S3cretPw@h/d
influx write --token S3cretPw
curl ftp://u:S3cretPw@h
ALTER USER x WITH PASSWORD 'S3cretPw'
CREATE USER x IDENTIFIED BY 'S3cretPw'
GRANT ALL ON *.* TO u IDENTIFIED BY "S3cretPw"
redis-cli CONFIG SET requirepass S3cretPw
redis-cli AUTH S3cretPw
requirepass S3cretPw
ConvertTo-SecureString "S3cretPw" -AsPlainText
$env:TOKEN = "S3cretPw"
setx TOKEN S3cretPw
""".strip().split("\n")

HARMLESS = r"""
/etc/passwd: Permission denied
cat /etc/passwd: No such file or directory
mkdir -p dir/sub
cp -p a b
tar -p -xf a.tar
tar xpf a.tar
docker run -p 80:80 nginx
docker run -p 8080:80 -u 1000:1000 nginx
docker run -u www-data nginx
ssh -p 22 host
ssh -p 2222 me@host
scp -P 22 a h:b
rsync -avp a b
rsync -e 'ssh -p 22' a b
redis-cli -p 6379 ping
redis-cli -h db -p 6380 --scan
mysql -P 3306 -u root db
mysql -h db -u root -p
mysql -u root -p db
mongosh --port 27017
psql -p 5432 -U u db
psql -U postgres -h localhost -w db
pip install -U requests
pip install -p x
python -u x.py
git log -p file
git add -p src
git stash -p
git checkout -p main
patch -p1 < a.patch
ps -p 1234
grep -P 'a+b' file
grep -w token file
grep -a x file
ls -a dir
sort -k 2 file
sort -u a:b
curl -u user https://x
curl -k https://x
wget -k https://x
wget -P dir https://x
wget -U Mozilla https://x
zip -r a.zip b
unzip -p a.zip b
unzip a.zip -d dir
7z x a.7z -oout
7z l a.7z
htpasswd -c f u
openssl req -key k.pem -out x
openssl x509 -in a -noout
openssl s_client -connect h:443
openssl enc -kfile f -in a
openssl rand -hex 16
smbclient -L host -U user
smbclient //h/s -U user
isql dsn user
consul kv put app/replicas 3
dotnet run -p src/app
pulumi config set region eu-west-1
java -jar app.jar
supabase link --project-ref abc
http GET example.org
http -p Hh example.org
ldapsearch -x -W -b dc=x
aws configure set region eu-west-1
aws configure list
aws s3 ls -p x
docker login reg.io
docker login -u me reg.io
nc -p 80 h
nmap -p 22,80 h
nmap -p- h
lsof -p 123
kill -9 -p 1
strace -p 12
perl -p -e s/a/b/
sed -n 1p a
su -p root
sudo -u me ls
sudo -p prompt ls
read -p "Password: " x
read -sp "Enter token: " T
kubectl get pods -w
kubectl logs -p pod
kubectl config use-context a
npm login
npm token list
git config credential.helper store
export PATH=/usr/bin:$PATH
TOKEN=$(cat f) ./x
export GH_TOKEN="$GITHUB_TOKEN"
max_tokens: 4096
"max_tokens": 100
const token = null
password: str
def f(token: str, key: int)
if token == "x"
tokenizer = load()
the password was changed
https://example.org:8080/path
user@example.org
git@github.com:a/b.git
az vm list -o table
az group list -p x
sqlcmd -S h -E -Q x
oc login
rar x a.rar
ipmitool -I lanplus -H h sel
tail -a x
echo done | tee -a log
xargs -P 4 -n 1
make -p
find . -perm 600
tmux -u new
mount -t cifs //h/s /m -o ro
twine upload dist/*
useradd -m -p '' u
lftp -u user h
mosquitto_sub -t x -p 1883
gpg --passphrase-file f -c x
rabbitmqctl list_users
sqlplus /nolog
sqlplus user@db
curl -H "Accept: json" -u : https://x
chmod u+x a:b
docker compose -p proj up
docker compose -p S3 logs
cargo run -p crate
cargo test -p crate-name -- x
uv run -p 3.12 x
gcc -p a.c
netstat -p tcp
rsync -a --password-file=f a b
vault login -method=oidc
gh secret set FOO < f
snowsql -c conn
curl -XDELETE https://x/y
curl -sSL https://x:80/y
mysql -P3306 -h db
mysql -h h -e 'select 1'
docker run --name mysql -p 3306:3306 mysql
docker run -d -p3306:3306 mysql
7z x -o. a.7z
aws configure set output json
npm config set registry https://x
git config user.name me
the mysql -p option asks
http -a user x
vault login -method=github
set -x PATH /usr/bin
echo hello | docker load
echo a | sudo tee f
openssl rsa -in k -passin file:f
openssl rsa -passin env:PW -in k
sqlplus -S /nolog
redis-cli --raw get a
zip -r a b
sudo -u postgres psql -c x
""".strip().split("\n")


@rows("line", SECRETS)
def test_a_secret_on_a_command_line_never_survives(line: str) -> None:
    shown = redact_text(line)
    assert "S3cretPw" not in shown
    assert redact_text(shown) == shown, "redacting twice changes nothing"
    around = json.dumps({"tool": "bash", "input": {"command": line, "cwd": "/work"}})
    assert "S3cretPw" not in redact_text(around)
    if not line.startswith(("set -x", "requirepass")):  # words that are commands only where a command begins
        assert "S3cretPw" not in redact_text(f"$ sudo {line} && ls")
    assert "/work" in str(redact(json.loads(around)))


@rows("line", HARMLESS)
def test_a_look_alike_stays(line: str) -> None:
    assert redact_text(line) == line


@pytest.mark.parametrize(
    "words",
    [["mysql", "-uroot", "-pS3cretPw"], ["/usr/bin/docker", "login", "-p", "S3cretPw"], ["zip", "-P", "S3cretPw"]],
)
def test_a_command_as_a_list_is_read_as_its_line(words: list[str]) -> None:
    shown = redact({"command": words})
    assert "S3cretPw" not in str(shown)
    assert words[0] in str(shown)


def test_what_is_around_a_secret_stays() -> None:
    assert redact_text('{"command": "docker login -u me -p S3cretPw", "cwd": "/w"}') == (
        '{"command": "docker login -u me -p [redacted]", "cwd": "/w"}'
    )
    assert redact_text("redis-cli -a S3cretPw ping | tee log; ls") == "redis-cli -a [redacted] ping | tee log; ls"
    assert redact_text("7z a -pS3cretPw out.7z dir && ls") == "7z a -p[redacted] out.7z dir && ls"


@rows(
    "piece",
    [
        *(
            "mysql ",
            "mysql -pa ",
            "docker login -p a ",
            "docker login ",
            "echo a | chpasswd ",
            "echo | ",
            "curl -u a:b ",
        ),
        *(
            "htpasswd -b ",
            "sqlplus a/b ",
            "7z '",
            "http -a a:b\n",
            "redis-cli auth ",
            "fly secrets set a=b ",
            "<<<",
            "passwd <<< ",
        ),
        *(
            "kubectl secret --from-literal a=b ",
            "sudo ",
            "sudo mysql ",
            'sudo "',
            "aws set ",
            "-u a:b ",
            "a|b ",
            "set -x a b ",
        ),
    ],
)
def test_cost_is_linear(piece: str) -> None:
    """Sixteen times the text takes sixteen times as long, not 256 times."""

    def seconds(size: int) -> float:
        text = (piece * (size // len(piece) + 1))[:size]
        started = time.process_time()
        redact_text(text)
        return time.process_time() - started

    small, large = seconds(2**12), seconds(2**16)
    assert large < 60 * max(small, 0.01), (small, large)


def test_a_megabyte_of_command_lines_takes_seconds() -> None:
    text = "mysql -u root -pS3cretPw db | tee log; docker login -u me -p S3cretPw\n" * (2**20 // 70)
    started = time.process_time()
    assert "S3cretPw" not in str(redact_whole(text))
    assert time.process_time() - started < 10
