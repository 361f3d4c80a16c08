"""Issue 10, B17: passwords of programs that the table did not have, secrets by the name of an option, and look-alikes."""

from __future__ import annotations

import pytest

from bus.secrets.redaction import redact_text
from tests.support.rows import rows

pytestmark = pytest.mark.req("F-15", "X-10")

SECRETS = r"""
net use Z: \\server\share Tr0ub4dorZ /user:dom\me
net use \\server\share /user:me Tr0ub4dorZ
net user bob Tr0ub4dorZ /add
gcloud alpha services api-keys lookup --key Tr0ub4dorZ
snowsql -a acct -u me -p Tr0ub4dorZ
snowsql -a acct -u me -pTr0ub4dorZ
echo Tr0ub4dorZ | cryptsetup open /dev/sdb1 x --key-file -
printf %s Tr0ub4dorZ | cryptsetup luksOpen /dev/sdb1 x -d -
cryptsetup open /dev/sdb1 x <<< Tr0ub4dorZ
restic --password-command 'echo Tr0ub4dorZ' snapshots
restic -r x --password-command="printf Tr0ub4dorZ" backup .
RESTIC_PASSWORD_COMMAND='echo Tr0ub4dorZ' restic snapshots
echo Tr0ub4dorZ | wrangler secret put API
npx wrangler secret put API <<< Tr0ub4dorZ
echo Tr0ub4dorZ | npx wrangler secret put API_KEY --env prod
echo AUTH Tr0ub4dorZ | redis-cli
printf 'AUTH Tr0ub4dorZ\r\nPING\r\n' | nc localhost 6379
AUTH Tr0ub4dorZ
AUTH default Tr0ub4dorZ
redis-cli auth Tr0ub4dorZ
acme --password Tr0ub4dorZ
acme --passwd=Tr0ub4dorZ
acme --pw Tr0ub4dorZ
acme --pwd Tr0ub4dorZ
acme --pwd=Tr0ub4dorZ
acme --pass Tr0ub4dorZ
acme --db-pass=Tr0ub4dorZ
acme --db-pw Tr0ub4dorZ
acme -pw Tr0ub4dorZ
acme -password Tr0ub4dorZ
acme -passwd Tr0ub4dorZ
acme /password:Tr0ub4dorZ
acme /pass:Tr0ub4dorZ
acme /pwd:Tr0ub4dorZ
acme --apikey Tr0ub4dorZ
acme --api-key Tr0ub4dorZ
acme --api_key=Tr0ub4dorZ
acme -apikey Tr0ub4dorZ
acme --api-token Tr0ub4dorZ
acme --auth-token=Tr0ub4dorZ
acme --authtoken Tr0ub4dorZ
acme --access-key Tr0ub4dorZ
acme --secret-key Tr0ub4dorZ
acme --client-secret Tr0ub4dorZ
acme --client_secret=Tr0ub4dorZ
acme --secret Tr0ub4dorZ
acme --shared-secret Tr0ub4dorZ
acme --hmac-key Tr0ub4dorZ
acme --encryption-key Tr0ub4dorZ
acme --license-key Tr0ub4dorZ
acme --signing-key=Tr0ub4dorZ
acme --master-key Tr0ub4dorZ
acme --account-key Tr0ub4dorZ
acme --sas-token Tr0ub4dorZ
acme --connection-string 'Endpoint=x;Key=Tr0ub4dorZ'
acme --auth me:Tr0ub4dorZ
acme --auth=me:Tr0ub4dorZ
acme --credentials me:Tr0ub4dorZ
acme --creds me:Tr0ub4dorZ
acme --userpass me:Tr0ub4dorZ
acme --user-pass me:Tr0ub4dorZ
acme --basic-auth me:Tr0ub4dorZ
acme --login me:Tr0ub4dorZ
acme --pin 48Tr0ub4dorZ
acme --otp Tr0ub4dorZ
acme --totp-secret Tr0ub4dorZ
acme --passphrase Tr0ub4dorZ
acme --bearer Tr0ub4dorZ
acme --bearer-token Tr0ub4dorZ
acme --jwt Tr0ub4dorZ
acme --session-token Tr0ub4dorZ
acme --refresh-token Tr0ub4dorZ
acme --x-api-key Tr0ub4dorZ
acme --header 'X-Auth-Token: Tr0ub4dorZ'
acme --header 'Api-Key: Tr0ub4dorZ'
acme --env DB_PASSWORD=Tr0ub4dorZ
acme -e MYSQL_ROOT_PASSWORD=Tr0ub4dorZ
acme -e PGPASSWORD=Tr0ub4dorZ
docker run -e POSTGRES_PASSWORD=Tr0ub4dorZ postgres
PGPASSWORD=Tr0ub4dorZ psql -h x
MYSQL_PWD=Tr0ub4dorZ mysql
ADMIN_PW=Tr0ub4dorZ ./x
DB_PASS=Tr0ub4dorZ ./x
SMTP_PASS='Tr0ub4dorZ' ./x
export GH_PAT=Tr0ub4dorZ
export OPENAI_KEY=Tr0ub4dorZ
APP_KEY=base64:Tr0ub4dorZ
SSHPASS=Tr0ub4dorZ sshpass -e ssh h
REDISCLI_AUTH=Tr0ub4dorZ redis-cli
VAULT_TOKEN=Tr0ub4dorZ vault kv get x
ansible-playbook x.yml -e 'ansible_become_pass=Tr0ub4dorZ'
ansible all -e ansible_password=Tr0ub4dorZ
terraform apply -var 'db_password=Tr0ub4dorZ'
terraform apply -var="token=Tr0ub4dorZ"
helm install x y --set auth.password=Tr0ub4dorZ
kubectl create secret generic x --from-literal=k=Tr0ub4dorZ
kubectl create secret docker-registry r --docker-password=Tr0ub4dorZ
kubectl config set-credentials u --token=Tr0ub4dorZ
oc login -u me -p Tr0ub4dorZ
az login -u me -p Tr0ub4dorZ
az storage blob list --account-key Tr0ub4dorZ
cf login -u me -p Tr0ub4dorZ
heroku config:set SECRET_KEY=Tr0ub4dorZ
vercel env add X <<< Tr0ub4dorZ
netlify env:set API_TOKEN Tr0ub4dorZ
railway variables --set API_KEY=Tr0ub4dorZ
supabase secrets set X_TOKEN=Tr0ub4dorZ
doppler secrets set STRIPE=Tr0ub4dorZ
gh secret set X --body Tr0ub4dorZ
echo Tr0ub4dorZ | gh secret set X
glab variable set X Tr0ub4dorZ
glab auth login --token Tr0ub4dorZ
circleci setup --token Tr0ub4dorZ
sentry-cli --auth-token Tr0ub4dorZ releases list
ngrok config add-authtoken Tr0ub4dorZ
ngrok authtoken Tr0ub4dorZ
tailscale up --authkey Tr0ub4dorZ
tailscale up --auth-key=Tr0ub4dorZ
cloudflared tunnel run --token Tr0ub4dorZ
consul kv put -token=Tr0ub4dorZ a b
vault login Tr0ub4dorZ
vault kv put secret/x password=Tr0ub4dorZ
pass insert -e x <<< Tr0ub4dorZ
op item create password=Tr0ub4dorZ
keepassxc-cli ls db.kdbx <<< Tr0ub4dorZ
echo Tr0ub4dorZ | keepassxc-cli ls db.kdbx
echo Tr0ub4dorZ | sudo -S ls
echo 'me:Tr0ub4dorZ' | chpasswd
echo Tr0ub4dorZ | passwd --stdin me
printf 'Tr0ub4dorZ\nTr0ub4dorZ\n' | passwd me
printf 'Tr0ub4dorZ\nTr0ub4dorZ\n' | smbpasswd -s -a me
echo Tr0ub4dorZ | gpg --batch --passphrase-fd 0 -d x
gpg --batch --passphrase Tr0ub4dorZ -d x
echo Tr0ub4dorZ | openssl enc -pass stdin -in x
echo Tr0ub4dorZ | kinit me
echo Tr0ub4dorZ | ssh-add -
mysqladmin -u root password Tr0ub4dorZ
mysql -e "ALTER USER me IDENTIFIED BY 'Tr0ub4dorZ'"
psql -c "ALTER ROLE me PASSWORD 'Tr0ub4dorZ'"
psql -c "CREATE USER me WITH PASSWORD 'Tr0ub4dorZ'"
psql "host=x user=me password=Tr0ub4dorZ"
psql postgres://me:Tr0ub4dorZ@h/x
sqlcmd -S h -U sa -P Tr0ub4dorZ
bcp x out y -U sa -P Tr0ub4dorZ
isql -U sa -P Tr0ub4dorZ
impala-shell --ldap_password_cmd='echo Tr0ub4dorZ'
beeline -u jdbc:x -n me -p Tr0ub4dorZ
influx -username me -password Tr0ub4dorZ
influx setup --token Tr0ub4dorZ
clickhouse-client --password Tr0ub4dorZ
cqlsh -u me -p Tr0ub4dorZ
couchbase-cli x -u me -p Tr0ub4dorZ
arangosh --server.password Tr0ub4dorZ
neo4j-admin set-initial-password Tr0ub4dorZ
cypher-shell -u neo4j -p Tr0ub4dorZ
elasticsearch-users useradd me -p Tr0ub4dorZ
logstash-keystore add x <<< Tr0ub4dorZ
mosquitto_passwd -b file me Tr0ub4dorZ
htpasswd -bc f me Tr0ub4dorZ
rabbitmqctl change_password me Tr0ub4dorZ
mongo admin -u me -p Tr0ub4dorZ
mc alias set s3 http://x AK Tr0ub4dorZ
mc config host add s3 http://x AK Tr0ub4dorZ
s3cmd --secret_key=Tr0ub4dorZ ls
rclone config create x s3 secret_access_key Tr0ub4dorZ
rclone obscure Tr0ub4dorZ
borg init --encryption=repokey; BORG_PASSPHRASE=Tr0ub4dorZ borg list
duplicity --x; PASSPHRASE=Tr0ub4dorZ duplicity a b
zip -e -P Tr0ub4dorZ a.zip b
7z a -pTr0ub4dorZ a.7z b
unrar x -pTr0ub4dorZ a.rar
qpdf --encrypt Tr0ub4dorZ Tr0ub4dorZ 256 -- a b
pdftotext -upw Tr0ub4dorZ a.pdf
ffmpeg -decryption_key Tr0ub4dorZ -i a b
wpa_cli set_network 0 psk '"Tr0ub4dorZ"'
nmcli dev wifi connect x password Tr0ub4dorZ
networksetup -setairportnetwork en0 ssid Tr0ub4dorZ
security unlock-keychain -p Tr0ub4dorZ login.keychain
security add-generic-password -a x -s y -w Tr0ub4dorZ
xfreerdp /u:me /p:Tr0ub4dorZ /v:h
vncpasswd -f <<< Tr0ub4dorZ
x11vnc -passwd Tr0ub4dorZ
sshpass -pTr0ub4dorZ ssh h
lftp -u me,Tr0ub4dorZ h
ncftpput -u me -p Tr0ub4dorZ h . a
curl -u me:Tr0ub4dorZ https://x
wget --http-password=Tr0ub4dorZ x
svn co --username me --password Tr0ub4dorZ x
hg clone https://me:Tr0ub4dorZ@h/x
git clone https://oauth2:Tr0ub4dorZ@h/x.git
git config user.password Tr0ub4dorZ
npm config set //r/:_authToken Tr0ub4dorZ
npm login --auth-type=legacy; npm token create --password Tr0ub4dorZ
twine upload -u __token__ -p Tr0ub4dorZ dist/*
poetry config pypi-token.pypi Tr0ub4dorZ
poetry config http-basic.x me Tr0ub4dorZ
poetry publish -u me -p Tr0ub4dorZ
cargo login Tr0ub4dorZ
nuget push x.nupkg Tr0ub4dorZ -Source y
nuget setapikey Tr0ub4dorZ
dotnet nuget push x -k Tr0ub4dorZ
dotnet user-secrets set Jwt:Key Tr0ub4dorZ
composer config http-basic.x.com me Tr0ub4dorZ
mvn deploy -Dpassword=Tr0ub4dorZ
gradle publish -PossrhPassword=Tr0ub4dorZ
java -Djavax.net.ssl.keyStorePassword=Tr0ub4dorZ -jar x.jar
java -jar x.jar --spring.datasource.password=Tr0ub4dorZ
jarsigner -storepass Tr0ub4dorZ x.jar a
apksigner sign --ks-pass pass:Tr0ub4dorZ x.apk
signtool sign /f c.pfx /p Tr0ub4dorZ x.exe
codesign --keychain x; xcrun notarytool submit --password Tr0ub4dorZ x
xcrun altool -u me -p Tr0ub4dorZ
fastlane pilot upload -u me; FASTLANE_PASSWORD=Tr0ub4dorZ fastlane x
sfdx force:user:password:set -p Tr0ub4dorZ
snyk auth Tr0ub4dorZ
codecov -t Tr0ub4dorZ
coveralls --service_token Tr0ub4dorZ
sonar-scanner -Dsonar.login=Tr0ub4dorZ
datadog-ci --api-key Tr0ub4dorZ
slackcat --token Tr0ub4dorZ
telegram-send --token Tr0ub4dorZ
ldapsearch -D cn=x -w Tr0ub4dorZ
samba-tool user create bob Tr0ub4dorZ
ipa user-mod x --password <<< Tr0ub4dorZ
radtest me Tr0ub4dorZ localhost 0 testing123
snmpwalk -v3 -u me -A Tr0ub4dorZ -X Tr0ub4dorZ h
ipmitool -U me -P Tr0ub4dorZ h
crackmapexec smb h -u me -p Tr0ub4dorZ
hydra -l me -p Tr0ub4dorZ h ssh
impacket-psexec dom/me:Tr0ub4dorZ@h
evil-winrm -i h -u me -p Tr0ub4dorZ
cmdkey /add:h /user:me /pass:Tr0ub4dorZ
schtasks /create /ru me /rp Tr0ub4dorZ /tn x
psexec \\h -u me -p Tr0ub4dorZ cmd
wmic /node:h /user:me /password:Tr0ub4dorZ os
sc config svc obj= me password= Tr0ub4dorZ
$c = ConvertTo-SecureString Tr0ub4dorZ -AsPlainText -Force
Connect-Service -Password Tr0ub4dorZ
$env:API_TOKEN = 'Tr0ub4dorZ'
setx API_TOKEN Tr0ub4dorZ
"""
HARMLESS = r"""
server -p 8080
docker run -p 8080:80 nginx
ssh -p 2222 host
mkdir -p a/b
gcloud kms keys list --keyring x
gcloud kms decrypt --key my-key --keyring ring --location global
aws kms decrypt --key-id alias/app
aws dynamodb get-item --table-name t --key '{"id":{"S":"1"}}'
aws s3api get-object --bucket b --key path/to/file.txt out
acme --key id
acme --key name --value 3
sort --key 2,3
sort -k 2 file
git log --key x
cat: /etc/passwd: Permission denied
/etc/passwd: Permission denied
ls -l /etc/passwd
grep root /etc/passwd
openssl x509 -in server.key -noout
ssh -i ~/.ssh/id_ed25519 host
ssh-keygen -t ed25519 -f key
cryptsetup open /dev/sdb1 x --key-file /etc/keys/disk.key
cryptsetup luksDump /dev/sdb1
restic --password-command 'pass show restic' snapshots
restic --password-command 'op read op://v/i/password' snapshots
restic --password-file /etc/restic.pw snapshots
RESTIC_PASSWORD_COMMAND='pass show restic' restic backup .
wrangler secret list
wrangler deploy --env prod
echo hello | wrangler tail
net use
net use Z: \\server\share
net use Z: /delete
net user bob
net start spooler
net use \\server\share /user:dom\me *
AUTH required for this page
The AUTH header was missing
auth module loaded
redis-cli auth
redis-cli -p 6380 ping
snowsql -c prod -f x.sql
snowsql -q 'select 1'
psql -p 5433 app
psql -U me -d app -c 'select 1'
mysql -P 3307 -u me app
curl -u me: https://x
curl -o pass.txt https://x
tar -p -xf a.tar
cp -p a b
rsync -p a b
npm run auth
npm test -- --pass-with-no-tests
jest --passWithNoTests
pytest -p no:cacheprovider
pytest -k password
grep -rn 'password' src
rg "api_key" --type py
git commit -m 'rotate the api key and password'
git commit -m "Add password reset"
echo "Password: "
read -s -p "Password: " PW
python3 manage.py changepassword admin
passwd --status me
sudo passwd root
vault kv get secret/app
vault status
az keyvault secret show --name x --vault-name y
kubectl get secret db -o yaml
kubectl create secret generic x --from-file=./key.json
gh secret list
gh auth status
docker login registry.example.com
docker login -u me --password-stdin registry < pw.txt
helm install x y --set replicas=3
terraform apply -var 'region=eu'
ansible-playbook x.yml -e 'env=prod'
java -Dspring.profiles.active=dev -jar x.jar
dotnet user-secrets list
poetry config virtualenvs.in-project true
git config user.name me
git config credential.helper store
npm config set registry https://r.example
cargo login --help
security find-generic-password -s x
ffmpeg -pass 1 -i a b
ffmpeg -i a -pass 2 -passlogfile log b
make pass
acme --pin-version 3
acme --login
acme --auth basic
acme --auth none
acme --creds ./creds.json
acme --credentials ~/.aws/credentials
acme --jwt-issuer x
acme --otp-length 6
acme --pw-file x
qpdf --decrypt a.pdf b.pdf
mc alias list
rclone config create x drive scope drive.readonly
sc config svc start= auto
schtasks /create /tn x /tr y
signtool verify /pa x.exe
codecov -f coverage.xml
onesixtyone -i hosts
nuget push x.nupkg -Source y
ngrok http 80
tailscale up --ssh
snyk test
"""


@rows("line", SECRETS.strip().splitlines())
def test_a_secret_is_hidden(line: str) -> None:
    assert "Tr0ub4dorZ" in line
    assert "Tr0ub4dorZ" not in redact_text(line)


@rows("line", HARMLESS.strip().splitlines())
def test_a_look_alike_stays(line: str) -> None:
    assert redact_text(line) == line


def test_redis_auth_is_hidden_on_a_line_of_its_own() -> None:
    shown = redact_text("redis-cli <<EOF\nAUTH Tr0ub4dorZ\nGET x\nEOF")
    assert shown == "redis-cli <<EOF\nAUTH [redacted]\nGET x\nEOF"
    assert redact_text("AUTH default Tr0ub4dorZ") == "AUTH default [redacted]"


def test_only_the_secret_of_a_line_is_replaced() -> None:
    assert redact_text(r"net use Z: \\h\s Tr0ub4dorZ /user:me") == r"net use Z: \\h\s [redacted] /user:me"
    assert redact_text("acme --db-pass=Tr0ub4dorZ --port 8080") == "acme --db-pass=[redacted] --port 8080"
    assert redact_text("acme --auth me:Tr0ub4dorZ -v") == "acme --auth [redacted] -v"
