"""The agent's side: the hook command (`main`), and what it loads only when needed.

`gateway_link` and `tls` are its ways to a server, `slow` waits for hooks that take long, `outage` and `spool` keep events while
the server is away, `stop_flag` denies during a stop that the server cannot be asked about. `answer_file` is its configuration.

The launcher loads `main` without this file. Programs that send requests in the hook command's format import names from here.
"""

from bus.shim.gateway_link import GatewayLink as GatewayLink
from bus.shim.main import HEADER as HEADER
from bus.shim.main import MAX_STDIN as MAX_STDIN
from bus.shim.main import AnswerPlan as AnswerPlan
from bus.shim.main import Link as Link
from bus.shim.main import NoAnswer as NoAnswer
from bus.shim.main import left as left
from bus.shim.main import new_id as new_id
from bus.shim.main import open_link as open_link
from bus.shim.main import pack as pack
from bus.shim.main import unpack_answer as unpack_answer
from bus.shim.outage import SPOOL_LIMIT as SPOOL_LIMIT
from bus.shim.outage import count_dropped as count_dropped
from bus.shim.outage import drain_later as drain_later
from bus.shim.outage import keep as keep
from bus.shim.outage import lock as lock
