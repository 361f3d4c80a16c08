"""Every key that Fleethook has in Redis: name, type, time to live, who writes it and who reads it.

All keys of one namespace begin `fh:<namespace>:{<shard>}:`. The braces are a hash tag: all keys of an event are in one slot
of a Redis Cluster, so that one script can hand it over. There is one shard for now, `0`.
"""
# ruff: noqa: E501 - a row for each key reads as a table

from __future__ import annotations

import re
from typing import Final, NamedTuple

from bus.errors import ConfigError

_NAMESPACE: Final = re.compile(r"[a-z0-9-]{1,40}")

SHARD: Final = "0"

MINUTE: Final = 60_000
DAY: Final = 24 * 60 * MINUTE


class Key(NamedTuple):
    """One declared key; `ttl` in milliseconds, or a text if another rule removes it."""

    pattern: str
    kind: str
    ttl: int | str
    writer: str
    reader: str
    purpose: str


HEARTBEAT_MS: Final = 2_000
IDLE_BEAT_MS: Final = HEARTBEAT_MS + 500
"""How long the heartbeat of a worker lasts that has nothing in work and writes it once a second: like that of a busy one, it ends
1.5 s after the next is due."""
EVALUATORS_MS: Final = 3 * HEARTBEAT_MS
"""How long calls see that an evaluator is alive after its last heartbeat: a busy machine may give it no processor for two
seconds (seen in CI), and no call may pass for that."""
KEPT_MS: Final = 10 * MINUTE
CALL_MS: Final = MINUTE
LATER_MS: Final = DAY
NOTE_MS: Final = 6_000
"""How long the note that hooks still run is valid: longer than others need to take over from a dead evaluator."""
DONE_MS: Final = 7 * DAY
HOST_EVENTS_MS: Final = 2 * DONE_MS
"""Longer than events are kept for a host that is away, so that an overdue event becomes a dead letter first."""
DEAD_MS: Final = 30 * DAY
FLOW_MS: Final = 30 * DAY
"""How long the state of a workflow is kept after a session's last event."""
REPORT_MS: Final = 30 * DAY
INSTALLS_MS: Final = 10 * MINUTE
FAILING_MS: Final = 10 * DAY
"""Twice the default time after which an endpoint that only fails is disabled."""
CODE_MS: Final = 10 * MINUTE
SIGN_IN_IDLE_MS: Final = DAY // 2
"""How long a browser stays signed in without a call."""
PLUGINS_MS: Final = 10_000
"""How long a worker's report of its plugins is valid."""
OBSERVED_MS: Final = 10 * MINUTE
"""How long announced events wait for a worker whose plugins observe them."""
SENT_MS: Final = 7 * DAY
"""How long the id of a drained spool record is remembered, so that a record that is sent twice counts once."""

DECLARED: Final[tuple[Key, ...]] = (
    Key("requests", "stream", "entries leave when answered", "agents", "evaluators", "blocking events that wait for a verdict"),
    Key("events", "stream", "trimmed by age and size once acknowledged", "agents, evaluators", "dispatcher, readers", "everything that happened, requests with their verdict"),
    Key("deliveries", "stream", "entries leave with their outcome", "dispatcher", "carriers", "deliveries that are ready"),
    Key("deliveries:*", "stream", "entries leave with their outcome", "dispatcher", "carriers", "deliveries for one host"),
    Key("reply:*", "list", KEPT_MS, "evaluators", "the agent that made the name", "the answer to one request; its name is 128 random bits; with `:wait`, the note that slow hooks still run (6 s), or the provisional answer of a held call"),
    Key("verdict:*", "string", KEPT_MS, "evaluators", "evaluators", "by request id: the reply key that holds its answer"),
    Key("call:*", "string", CALL_MS, "evaluators", "evaluators", "by agent, session, event, tool call and its input: the verdict on the same hook call"),
    Key("claim:*", "string", KEPT_MS, "evaluators", "evaluators", "who runs the hooks with effects of a request"),
    Key("join:*", "list", KEPT_MS, "evaluators", "evaluators", "reply keys of repeated requests that wait for the running evaluation"),
    Key("alive:*", "string", EVALUATORS_MS, "workers", "agents, workers", "a worker of this role is alive (evaluator), or holds this lease (2.5 s: dispatcher, job-<id>), or is started on demand (starts-<role>)"),
    Key("beat:*", "string", IDLE_BEAT_MS, "workers", "workers, status", "one consumer's heartbeat, with its description"),
    Key("due", "zset", "members leave when due", "carriers", "dispatcher", "deliveries to be tried again, by due time in milliseconds"),
    Key("delivery:*", "hash", DONE_MS, "dispatcher, carriers", "carriers, readers", "one delivery: its state, target and attempts; the TTL starts when it is done"),
    Key("body:*", "hash", "until its last delivery is delivered or expires", "dispatcher", "carriers", "an event's body while a delivery of it is open"),
    Key("parked:*", "list", "until a place of the target is free", "carriers", "carriers", "deliveries over their target's cap"),
    Key("flight:*", "zset", "members leave with their outcome", "carriers", "carriers", "attempts under way for one target, by the time their lease ends"),
    Key("breaker:*", "hash", DAY, "carriers", "carriers, dispatcher, readers", "an open breaker: since when, when the next probe is due, which one is under way"),
    Key("halted:*", "hash", "until it is resumed or enabled", "admins, carriers", "carriers, dispatcher, readers", "an endpoint that is paused or disabled: since when, by whom, why"),
    Key("failing:*", "hash", FAILING_MS, "carriers", "carriers, readers", "an endpoint that only fails: since when, how often; removed at its next success"),
    Key("bucket:*", "hash", "until it is full again", "carriers, dispatcher", "carriers, dispatcher", "a target's token bucket: tokens, and when they were counted"),
    Key("line:*", "zset", "members leave with their outcome", "dispatcher, carriers", "dispatcher, carriers", "deliveries that wait for each other: a session's to one target in the order of its events, one event's pigo hooks in the order of their file; the one whose turn it is has the score -1"),
    Key("batch:*", "list", "until the batch is full or has waited enough", "dispatcher", "dispatcher", "deliveries of a target that wait to be sent in one body"),
    Key("openings", "zset", "members leave when due", "carriers, admins", "dispatcher", "targets whose waiting deliveries may go on, by time in milliseconds"),
    Key("words", "stream", "the last one", "admins, gateways, carriers, worker host", "dispatcher", "somebody made something due earlier, or added a job: a sleeping dispatcher looks at once"),
    Key("recent", "zset", "trimmed by age and size", "dispatcher", "readers", "delivery ids by time, for listing"),
    Key("outcomes", "stream", "the last 50,000 entries", "carriers", "gateways", "outcomes of attempts, for live feeds, up to eight in an entry: by delivery, which attempt, and what came of it"),
    Key("dead", "zset", DEAD_MS, "workers", "readers", "dead letters by time: delivery ids, and ids of poison entries"),
    Key("deadletter:*", "hash", DEAD_MS, "workers", "readers", "one dead letter that is not a delivery: its stream, the reason, its bytes (cut)"),
    Key("job:*", "hash", DONE_MS, "command line, chores", "chores, readers", "one maintenance job: its task, cursor and progress; the TTL starts again at every step"),
    Key("jobs", "zset", DONE_MS, "command line", "readers", "maintenance jobs by time, for listing"),
    Key("jobs:open", "zset", DONE_MS, "command line, chores", "dispatcher, chores", "maintenance jobs that have not ended, by time"),
    Key("wanted", "string", 1_000, "dispatcher", "dispatcher", "a carrier job has just been queued"),
    Key("wanted:*", "string", 1_000, "dispatcher, host workers", "dispatcher, host workers", "a carrier job has just been queued for one host"),
    Key("uncarried", "zset", DAY, "dispatcher, host workers", "readers", "hosts whose own deliveries have waited for a carrier, by the last time"),
    Key("hookset:current", "string", "kept", "admins", "workers", "number of the published hook set in force"),
    Key("hookset:*", "string", "kept, the last 100", "admins", "workers", "one published version of the hook set"),
    Key("hookset:log", "stream", "the last 1,000", "admins", "readers", "who published or rolled back which version, when"),
    Key("first:*", "string", SENT_MS, "dispatcher, evaluators", "dispatcher, evaluators, readers", "by id of a spooled record: the entry of the event stream that counts"),
    Key("sent", "zset", "trimmed by age", "older hook commands", "older hook commands", "ids of spooled events that arrived, by time, if their rights allow it"),
    Key("host:*", "hash", "until the host has none or is forgotten", "worker host, evaluators", "evaluators, readers", "by user: the blocking hooks that only this host has, and their failure policies"),
    Key("hosts", "zset", "until the host is forgotten", "worker host, evaluators", "readers", "hosts that have blocking hooks of their own, by the time when they last recorded them"),
    Key("sealed", "zset", MINUTE, "carriers", "status", "which key of a sealed secret is missing on which host for which endpoint, by the time of the last attempt"),
    Key("requests:*", "stream", "entries leave when answered", "evaluators", "worker host", "the parts of requests that only one host can answer"),
    Key("part:*", "string", KEPT_MS, "worker host", "worker host", "by request id: which worker runs the hooks that only its host has, then their verdict"),
    Key("background:*", "hash", "until the host has none or is forgotten", "worker host, evaluators", "dispatcher", "by user: the background hooks and endpoints that only this host has"),
    Key("kept", "zset", "members leave when nothing is kept for them", "dispatcher", "chores, status", "hosts for which there are events in `events:*`, by time"),
    Key("events:*", "stream", HOST_EVENTS_MS, "dispatcher", "worker host", "events of one host, for its user's and projects' background hooks; kept while its worker is away"),
    Key("waiting", "stream", "entries leave when answered", "evaluators", "evaluators", "requests that wait for a free slot"),
    Key("question:*", "hash", DONE_MS, "evaluators, gateways, fleethook", "evaluators, gateways, fleethook", "by event id: a held call, its question and who answered; the TTL starts when it is decided"),
    Key("questions", "zset", "members leave when decided", "evaluators, gateways, fleethook", "evaluators", "questions that wait for an answer, by the time when something is due: the agent's deadline, or the end of the question"),
    Key("approvals", "zset", DONE_MS, "evaluators", "gateways, fleethook", "questions by the time when they were asked, for listing"),
    Key("decided", "stream", "entries leave when answered", "evaluators, gateways, fleethook", "evaluators", "held requests whose question is decided, or whose agent can wait no longer"),
    Key("ticket:*", "string", KEPT_MS, "gateways, fleethook", "evaluators", "by hash of a call: the approved question, which lets the same call pass once"),
    Key("link:*", "string", "until the question ends", "carriers", "gateways", "by hash of a one-time link's token: its question"),
    Key("stops", "hash", "until they are lifted", "gateways, fleethook", "evaluators, gateways, worker host, fleethook", "the stops in force, by id: where, why, by whom, since when"),
    Key("stops:log", "stream", "the last 1,000", "gateways, fleethook", "readers", "who stopped and resumed which agents, when and why"),
    Key("reached", "hash", DONE_MS, "evaluators, worker host", "gateways, fleethook", "by host: the stops that it has got and keeps for an outage"),
    Key("messages", "zset", DONE_MS, "gateways, fleethook", "gateways, fleethook", "people's messages into sessions by time, for listing"),
    Key("message:*", "hash", DONE_MS, "gateways, fleethook, evaluators", "evaluators, gateways, fleethook", "by id: a message, its sessions, and the event by which each got it"),
    Key("mail", "zset", DAY, "gateways, fleethook, evaluators", "evaluators", "post boxes with messages, by time"),
    Key("mail:*", "list", DAY, "gateways, fleethook, evaluators", "evaluators", "by hash of a session: the ids of the messages that wait for it"),
    Key("lineage:*", "hash", KEPT_MS, "evaluators, dispatcher", "both", "an event's parent and the hooks that ran for it"),
    Key("told:*", "hash", DAY, "evaluators", "evaluators", "notices about rejected hook files that a session's user has got already"),
    Key("announced:*", "string", DONE_MS, "workers", "workers", "marks that an event which is announced once was announced"),
    Key("fresh:*", "stream", MINUTE, "workers", "workers", "the copy of a stream whose last id is made up, until the copy replaces it"),
    Key("moved:*", "hash", 2 * KEPT_MS, "workers", "workers", "new ids of entries whose ids were made up, for workers that had read them before"),
    Key("late", "stream", "entries leave when the event stream is repaired", "evaluators", "workers", "events that could not be added to their stream, because its last id was made up"),
    Key("repaired", "hash", "kept", "workers", "status, doctor", "by stream: when its last id was found to be made up, how often"),
    Key("weakened", "list", DONE_MS, "workers, fleethook", "status", "the last changes that weakened guards: who, what, how"),
    Key("later", "zset", LATER_MS, "evaluators, worker host, carriers", "evaluators", "the last 1,000 sessions with context from background hooks, by time"),
    Key("later:*", "list", LATER_MS, "evaluators, worker host, carriers", "evaluators", "by source and session: its last 32 contexts, redacted, each given once with the next event that can carry it"),
    Key("tokens", "hash", "kept", "admins", "gateways", "by name: a bearer token's hash, scopes, creator and end"),
    Key("signincode:*", "string", CODE_MS, "admins", "gateways", "by hash of a one-time code: the token to which the sign-in belongs, and its scopes; ends with its first use"),
    Key("signin:*", "string", SIGN_IN_IDLE_MS, "gateways", "gateways", "by hash of a browser's cookie: its token, scopes, end and the hash of the page's key; each use renews the TTL"),
    Key("gateways", "zset", "members leave with their process", "gateways", "status", "gateways by the time of their last heartbeat; their addresses are in `beat:*`"),
    Key("plugins", "zset", "members leave after 10 s", "evaluators, worker hosts", "readers", "workers that run plugins, by the time of their last report"),
    Key("plugins:*", "string", PLUGINS_MS, "evaluators, worker hosts", "readers", "by worker: the state of its plugins, with their calls and times"),
    Key("pluginorders", "hash", "kept", "fleethook, gateways", "evaluators, worker hosts", "by plugin (`*`: all): the number of the last order to load it anew"),
    Key("observed", "stream", OBSERVED_MS, "dispatcher", "evaluators", "the last 1,000 announced events that plugins observe, each for one evaluator"),
    Key("flow:*", "hash", FLOW_MS, "evaluators, worker host, carriers", "the same, fleethook", "by session and workflow: the state with its version, and which event has the lease"),
    Key("flowed:*", "hash", DONE_MS, "evaluators, worker host, carriers", "the same, fleethook", "by event: what each workflow did at it, so that it is done once; a day for an event at which only a counter grew"),
    Key("flowvars:*", "hash", FLOW_MS, "evaluators, worker host, carriers", "the same", "by session: the variables that its workflows share"),
    Key("flowlog:*", "list", FLOW_MS, "evaluators, worker host, carriers", "fleethook", "by session: the last 256 things that its workflows did"),
    Key("flows", "zset", FLOW_MS, "evaluators, worker host, carriers", "fleethook", "the last 10,000 states of workflows by the time of their last change; sessions and workflows"),
    Key("report:*", "hash", REPORT_MS, "dispatcher", "readers", "what one agent program on one host reports with: its versions, last event and verdict, counts"),
    Key("reports", "zset", "trimmed by age and size", "dispatcher", "readers", "reports by the time of their last event"),
    Key("sessions", "zset", DAY, "dispatcher", "gateways, fleethook", "sessions of the last day that have not ended, by the time of their last event, to the minute"),
    Key("session:*", "string", DAY, "dispatcher", "gateways, fleethook", "one of them: its id, agent, host and folder"),
    Key("installs:*", "string", INSTALLS_MS, "worker host, dispatcher, gateways", "chores", "the hooks of agents that are installed on one host, and what keeps them from running"),
    Key("calls:*", "zset", DONE_MS, "dispatcher", "dispatcher, chores", "by session: the last 256 tool calls whose pre-hook event came, by time; those that have run have a negative score"),
    Key("coverage:*", "hash", DONE_MS, "dispatcher, chores", "chores, readers", "by session: which tools its pre-hook events were for, and its calls without one"),
    Key("coverage", "string", "kept", "dispatcher", "chores", "since when tool calls are compared with their pre-hook events"),
    Key("uncovered", "zset", "members leave when decided", "dispatcher", "chores", "tool calls that ran and whose pre-hook event has not come, by the time to decide"),
    Key("gaps", "zset", DONE_MS, "chores", "readers", "the last 1,000 sessions with calls that came without their pre-hook event, by time"),
    Key("limit:*", "zset", DONE_MS, "evaluators, dispatcher", "evaluators, fleethook", "by rule and session, agent, user, host or fleet: the calls that count for its limit, by time; kept at least as long as its period"),
    Key("limits", "zset", DONE_MS, "evaluators, dispatcher", "fleethook", "counters of limits by the time of their last call: which rule, whose, and the limit in words"),
    Key("counted:*", "string", KEPT_MS, "evaluators, dispatcher", "both", "by rule and call: a call that its agent announces by several events was counted at the first (1 min); by event: what its model used was added up"),
    Key("spent:*", "hash", DONE_MS, "dispatcher", "evaluators", "by session, agent, user, host or fleet: the tokens and the money that models have used, by minute and in all"),
    Key("facts:*", "zset", DONE_MS, "dispatcher", "evaluators, worker host", "by session: the last 1,000 things that it did, each with its last time: commands with their exit codes, files, tools; with `:secrets`, the secrets that it read"),
    Key("repeats:*", "hash", DONE_MS, "dispatcher", "evaluators, worker host", "by session: of each call how often in a row it came to the same outcome; when the session last waited, and when a person last wrote"),
    Key("family:*", "string", DONE_MS, "dispatcher", "evaluators, dispatcher", "by subagent's session: the session that it counts for, which may have one itself"),
    Key("stats", "hash", "kept", "workers", "status", "counters: events, verdicts, fallbacks, deliveries"),
    Key("metrics", "hash", "kept", "workers", "gateways", "counters by their labels, and the buckets of histograms, for Prometheus"),
)  # fmt: skip


READ_ONLY: Final = ("hookset:*", "tokens")
"""Keys that workers read and must not write: the hook set that they follow, and the tokens that gateways accept."""


class Keys:
    """The key names of one namespace."""

    __slots__ = ("prefix",)

    def __init__(self, namespace: str = "default", shard: str = SHARD) -> None:
        if not _NAMESPACE.fullmatch(namespace):  # with `:` or `{` it could name another fleet's keys
            hint = "use lower-case letters, digits and `-`, at most 40"
            raise ConfigError(f"{namespace!r} is not a valid namespace", hint=hint)
        self.prefix = f"fh:{namespace}:{{{shard}}}:"

    @property
    def namespace(self) -> str:
        """The name of the fleet."""
        return self.prefix.split(":", 2)[1]

    def __call__(self, name: str, *parts: str) -> str:
        """The full name of a declared key, e.g. `keys("reply", token)`."""
        return f"{self.prefix}{name}:{':'.join(parts)}" if parts else self.prefix + name


def declared(name: str) -> Key | None:
    """The declaration of a key by its name without the prefix; None if it is not declared."""
    exact = next((key for key in DECLARED if key.pattern == name), None)
    if exact is not None:
        return exact
    return next((key for key in DECLARED if key.pattern.endswith("*") and name.startswith(key.pattern[:-1])), None)


NOTE: Final = b"1"
"""The note that hooks still run. That of a held call is the answer that counts if no other one comes in time."""


def note_key(reply: str) -> str:
    """The list with the note that the request with this reply key is still worked at, or held."""
    return f"{reply}:wait"
