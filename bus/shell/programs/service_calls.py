"""Calls of services' libraries and of HTTP clients in code, as the commands that do the same: `boto3`, `docker`, `fetch`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Arg, Inner, names

_MOST: Final = 32
Words = tuple[str, ...]
_SQL: Final = ("sqlite3", "database")

_BY_LIBRARY_TABLE: Final = r"""
docker podman :: volumes\.prune$|\.(?:prune_volumes|remove_volume)$ :: docker volume prune -a -f
docker podman :: (?:containers|images|networks)\.(?:prune\w*|remove)$ :: docker system prune -a -f
docker podman :: (?:containers|images|networks|volumes)\.list\.(?:remove|kill)$ :: docker system prune -a -f
docker podman :: (?:volumes\.get|\w*vol\w*|\bv)\.remove$ :: docker volume prune -a -f
kubernetes kubernetes_asyncio openshift pykube kr8s lightkube :: (?:^|\.)delete(?:_\w+)?$ :: kubectl delete namespace x
boto3 botocore aioboto3 aiobotocore :: \.(?:delete|terminate|purge_queue|schedule_key_deletion)$ :: aws s3api delete-object
google :: \.(?:delete|recursive_delete|delete_\w+|drop_\w+|destroy_\w+)$ :: gcloud storage rm -r gs://bucket
azure :: \.(?:begin_(?:delete|purge|deallocate)\w*|delete|delete_\w+|purge_\w+)$ :: az group delete -n x
digitalocean linode_api4 hcloud openstack libcloud pydo :: \.(?:destroy|delete)(?:_\w+)?$ :: doctl compute droplet delete x
github gitlab ghapi :: (?:^|\.)(?:\w*repo|repository|project|p|r|repos|projects|get_repo)\.delete$ :: gh repo delete x --yes
elasticsearch opensearchpy :: (?:indices|\bes|client|ilm)\.delete\w*$|\.delete_by_query$ :: curl -X DELETE http://es:9200/x
pymongo motor mongoengine :: \.(?:drop|drop_collection|drop_index(?:es)?)$ :: sqlite3 d 'DROP TABLE x'
sqlalchemy flask_sqlalchemy sqlmodel app models db :: \.query\.delete$ :: sqlite3 d 'DELETE FROM x'
sqlalchemy flask_sqlalchemy sqlmodel app models db :: \.drop_(?:all\w*|tables?|database)$ :: sqlite3 d 'DROP TABLE x'
peewee tortoise pony piccolo :: \.drop_(?:all\w*|tables?|database)$ :: sqlite3 d 'DROP TABLE x'
tortoise :: _drop_databases$ :: sqlite3 d 'DROP DATABASE x'
django :: objects(?:\.all|\.exclude)?\.delete$|\._raw_delete$|\ball\.delete$ :: sqlite3 d 'DELETE FROM x'
kafka confluent_kafka aiokafka :: \.delete_(?:topics|consumer_groups|groups|records)$ :: kafka-topics --delete --topic x
pika aio_pika kombu celery :: \.(?:queue_delete|queue_purge|exchange_delete|purge|discard_all)$ :: rabbitmqctl purge_queue x
rq huey :: \.(?:empty|flush)$ :: celery purge -f
minio :: \.(?:remove_bucket|remove_objects|delete_bucket\w*)$ :: mc rb --force x
stripe :: ^stripe\.\w+\.(?:delete|cancel)$ :: stripe customers delete x
influxdb_client influxdb :: \.(?:delete_bucket|drop_database|drop_measurement|delete)$ :: influx delete --bucket x
hvac :: \.(?:delete_metadata_and_all_versions|destroy_secret_versions)$ :: vault kv metadata delete x
pinecone qdrant_client chromadb pymilvus :: \.(?:delete_(?:index|collection|all)|drop_collection)$ :: sqlite3 d 'DROP TABLE x'
"""
"""For libraries by the first part of their names: how the call ends, and the command that does the same."""
_ROWS: Final = [row.split(" :: ") for row in _BY_LIBRARY_TABLE.strip().splitlines()]
_BY_LIBRARY: Final = [(names(row[0]), lazy_regex(row[1]), tuple(shlex.split(row[2]))) for row in _ROWS]
LIBRARIES: Final = frozenset(name for libraries, _, _ in _BY_LIBRARY for name in libraries) | {"redis"}


def library_call(roots: AbstractSet[str], chain: str) -> Words | None:
    """The command that does the same as a call; None for any other. `chain` has the names of the call: `volumes.prune`.

    `roots` are the libraries that the code imports.
    """
    for libraries, pattern, command in _BY_LIBRARY:
        if not libraries.isdisjoint(roots) and pattern.search(chain):
            return command
    return None


_URL: Final = lazy_regex(r"""['"`](https?://[^'"`\s]{1,2048})""")
_HOST: Final = lazy_regex(r"""(?:\bhost(?:name)?['"]?\s*(?::|=>)\s*|Net::HTTP\.(?:new|start)\(\s*)['"]([\w.-]+)['"]""")
_DELETE: Final = lazy_regex(
    r"""['"`:](?i:DELETE)['"`]|\bDELETE\s*=>|HTTP::Delete\b|:delete\s*[,)]|\b(?:axios|got|request|superagent|ky|needle|https?|client"""
    r"""|api|agent|RestClient|HTTParty|Faraday|conn|ua)(?:\.|->|::)del(?:ete)?\b|\bdel(?:ete)?!?\s*\(?\s*['"`]https?:|\bHTTP\.request\(\s*:?["']?DELETE"""
    r"""|\bNet::HTTP\.(?:new|start)\([^;\n]{0,120}\.delete\b"""
)
_CALLED_TABLE: Final = r"""
command :: \b(?:Delete|Terminate|Purge|Deregister)[A-Z]\w*Command\b :: aws s3api delete-object
delete purge :: \b(?:delete(?:Bucket|Table|DB\w+|Stack|Objects|Function|Queue|Topic)|purgeQueue)\s*\( :: aws s3api delete-object
terminate :: \bterminate_?[iI]nstances\s*\( :: aws s3api delete-object
delete_ h_delete :: \b(?:delete_(?:bucket|db_\w+|stack|table|objects)|batch_delete!)\s*\( :: aws s3api delete-object
aws :: \b(?:Aws|AWS)\b.*\.(?:delete|terminate|batch_delete|clear)!?(?=\W|$) :: aws s3api delete-object
deletena deletecol :: \bdelete(?:Namespace|Namespaced\w+|Collection\w+)\s*\( :: kubectl delete namespace x
prune getvolume :: \bprune(?:Volumes|Containers|Images)\b|getVolume\([^)]*\)\.remove\b :: docker volume prune -a -f
drop :: \bdrop(?:Database|Collection|AllTables|Schema)\s*\(|\bdrop_(?:database|all|tables)\b|\bdatabase\.drop\b :: dropdb x
many( remove( :: \.(?:deleteMany\(\s*(?:\{\s*\})?|(?:remove|updateMany)\(\s*\{\s*\})\s*[,)] :: sqlite3 d 'DELETE FROM x'
_all drop_table .truncate :: \b(?:delete_all|destroy_all|drop_table)\b|\bconnection\.truncate\b :: sqlite3 d 'DELETE FROM x'
mongo :: (?:\.|->)drop\(\s*\) :: sqlite3 d 'DROP TABLE x'
recursivedelete obliterate :: \brecursiveDelete\(|\.obliterate\( :: sqlite3 d 'DROP TABLE x'
.delete() :: \.delete\(\)\.(?:neq|gt|gte|not)\( :: sqlite3 d 'DELETE FROM x'
db.delete( :: \bdb\.delete\(\w+\)(?!\s*\.\s*where) :: sqlite3 d 'DELETE FROM x'
.destroy( :: \.destroy\(\s*\{\s*where:\s*\{\s*\} :: sqlite3 d 'DELETE FROM x'
delete /repos :: ["'`]DELETE /repos/\S+\}["'`] :: gh repo delete x --yes
sidekiq :: \bSidekiq::\w*(?:Queue|Set)\b[^;\n]{0,80}(?:\.|&:)(?:clear|delete)\b :: rabbitmqctl purge_queue x
flush :: \b(?i:flush_?(?:all|db))\b\s*(?:\(|['"]|$) :: redis-cli FLUSHALL
sequelize schema :: \b[sS]equelize\b.*\.drop\(|\bSchema::drop\w*\( :: dropdb x
sync( :: \bsync\(\s*\{\s*force\s*:\s*true :: sqlite3 d 'DROP TABLE x'
truncate( :: (?:::|->)truncate\(\) :: sqlite3 d 'DELETE FROM x'
del :: \b(?:knex|k|db|trx)\([^()]*\)\.(?:truncate|del|delete)\(\) :: sqlite3 d 'DELETE FROM x'
bucket( :: \bbucket\([^)]*\)\.(?:delete|deleteFiles)\( :: gcloud storage rm -r gs://bucket
deleteindex :: \b(?:deleteIndex|deleteIndexIfExists|deleteAllDocuments)\s*\( :: sqlite3 d 'DROP TABLE x'
repo :: \brepos\.delete\b|\bdelete_repository\b|\bdeleteRepo\w*\s*\( :: gh repo delete x --yes
indices deletebyquery :: \bindices\.delete\(|\bdeleteByQuery\( :: curl -X DELETE http://es:9200/x
"""
"""Calls of other languages than Python. Each has hint texts (code with such a call has one of them), the call, and the
command that does the same."""
_CALLED: Final = [
    (tuple(needles.split()), lazy_regex(call, re.DOTALL), tuple(shlex.split(command)))
    for needles, call, command in (row.split(" :: ") for row in _CALLED_TABLE.strip().splitlines())
]
_SQL_WORDS: Final = ("drop ", "truncate ", "delete ", "update ")
"""A text with destroying SQL has one of these in small letters."""
_QUOTED_SQL: Final = lazy_regex(
    r"""(?i)\b(?:\w*query|\w*exec\w*|raw|unsafe|prepare|\w*queryRaw\w*|do|run|sql|command)!?\s*[(`]?\s*(?:[^"'`;\n]{0,40}(?:["'][^"'`;\n]{0,80}["']\)?\s*)?,\s*)?(?:["'`]|q\{|<<~?)?"""
    r"""\s*((?:drop\s+(?:table|database|schema)|truncate|delete\s+from|update)\s[^"'`]{1,2048})"""
)


def service_calls(code: str) -> Iterator[Inner]:
    """What code in another language than Python deletes through services' libraries and over HTTP."""
    lowered = code.lower()
    if "http" in lowered and "del" in lowered and _DELETE.search(code):
        for match in islice(_URL.finditer(code), _MOST):
            yield _command(("curl", "-X", "DELETE", match[1]))
        for match in islice(_HOST.finditer(code), _MOST):
            yield _command(("curl", "-X", "DELETE", f"https://{match[1]}/"))
    for needles, pattern, command in _CALLED:
        for needle in needles:
            if needle in lowered:
                if pattern.search(code):
                    yield _command(command)
                break
    for word in _SQL_WORDS:
        if word in lowered:
            for match in islice(_QUOTED_SQL.finditer(code), _MOST):
                yield _command((*_SQL, match[1]))
            break


def deleted_address(texts: Iterable[str], host: str = "") -> Inner | None:
    """`curl -X DELETE URL` for a request whose arguments have the method and the address; `host` goes before a path."""
    found = list(texts)
    if "DELETE" not in [text.upper() for text in found]:
        return None
    address = next((text for text in found if "://" in text), "")
    if not address and host.startswith("http"):
        address = host + next((text for text in found if text.startswith("/")), "/")
    return _command(("curl", "-X", "DELETE", address)) if address else None


def _command(words: Words) -> Inner:
    return Inner(argv=tuple(map(Arg, words)))
