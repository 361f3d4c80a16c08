// Publish an event and ask for a verdict, without any package: node client.mjs [COMMAND]
// FLEETHOOK_REDIS_URL is redis://USER:PASSWORD@HOST:PORT or unix:///path/redis.sock; docs/wire.md has the format.
import { randomBytes } from "node:crypto";
import { connect } from "node:net";

const [, kind, user, password, place] =
  process.env.FLEETHOOK_REDIS_URL.match(/^(redis|unix):\/\/(?:([^:@]*):([^@]*)@)?([^?]*)/);
const prefix = `fh:${process.env.FLEETHOOK_NAMESPACE ?? "default"}:{0}:`;

// --- msgpack: what an event needs

function pack(value) {
  if (value === null || value === undefined) return Buffer.from([0xc0]);
  if (typeof value === "boolean") return Buffer.from([value ? 0xc3 : 0xc2]);
  if (typeof value === "number") {
    const raw = Buffer.alloc(9, 0xcb);
    raw.writeDoubleBE(value, 1);
    return Number.isInteger(value) && value >= 0 && value < 128 ? Buffer.from([value]) : raw;
  }
  if (typeof value === "string") {
    const raw = Buffer.from(value);
    return Buffer.concat([head(0xdb, raw.length), raw]);
  }
  if (Array.isArray(value)) return Buffer.concat([head(0xdd, value.length), ...value.map(pack)]);
  const entries = Object.entries(value);
  return Buffer.concat([head(0xdf, entries.length), ...entries.flat().map(pack)]);
}

function head(kind, size) {
  const raw = Buffer.alloc(5, kind);
  raw.writeUInt32BE(size, 1);
  return raw;
}

function unpack(raw) {
  let at = 0;
  const size = (bytes) => raw.readUIntBE((at += bytes) - bytes, bytes);
  const text = (length) => raw.toString("utf8", at, (at += length));
  const list = (length) => Array.from({ length }, next);
  const map = (length) => Object.fromEntries(Array.from({ length }, () => [next(), next()]));
  const number = (bytes, read) => read.call(raw, (at += bytes) - bytes);
  function next() {
    const kind = raw[at++];
    if (kind < 0x80) return kind;
    if (kind < 0x90) return map(kind & 0x0f);
    if (kind < 0xa0) return list(kind & 0x0f);
    if (kind < 0xc0) return text(kind & 0x1f);
    if (kind >= 0xe0) return kind - 256;
    switch (kind) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xca: return number(4, raw.readFloatBE);
      case 0xcb: return number(8, raw.readDoubleBE);
      case 0xcc: case 0xcd: case 0xce: return size(1 << (kind - 0xcc));
      case 0xcf: return Number(number(8, raw.readBigUInt64BE));
      case 0xd0: return number(1, raw.readInt8);
      case 0xd1: return number(2, raw.readInt16BE);
      case 0xd2: return number(4, raw.readInt32BE);
      case 0xd3: return Number(number(8, raw.readBigInt64BE));
      case 0xd9: case 0xda: case 0xdb: return text(size(1 << (kind - 0xd9)));
      case 0xdc: case 0xdd: return list(size(2 << (kind - 0xdc)));
      case 0xde: case 0xdf: return map(size(2 << (kind - 0xde)));
      default: throw new Error(`msgpack type 0x${kind.toString(16)} is not in a verdict`);
    }
  }
  return next();
}

// --- Redis: one command, one reply

const [host, port] = place.replace(/\/\d*$/, "").split(":");
const socket = kind === "unix" ? connect(place) : connect(Number(port ?? 6379), host);
let received = Buffer.alloc(0);
let wake = () => {};
socket.on("data", (data) => { received = Buffer.concat([received, data]); wake(); });
socket.on("error", (error) => { console.error(error.message); process.exit(3); });

async function take(length) {
  while (received.length < length) await new Promise((resolve) => { wake = resolve; });
  const taken = received.subarray(0, length);
  received = received.subarray(length);
  return taken;
}

async function line() {
  let end;
  while ((end = received.indexOf("\r\n")) < 0) await new Promise((resolve) => { wake = resolve; });
  return (await take(end + 2)).toString("utf8", 0, end);
}

async function reply() {
  const first = await line();
  const rest = first.slice(1);
  switch (first[0]) {
    case "+": return rest;
    case ":": return Number(rest);
    case "-": throw new Error(rest);
    case "$": return Number(rest) < 0 ? null : (await take(Number(rest) + 2)).subarray(0, -2);
    case "*": {
      if (Number(rest) < 0) return null;
      const items = [];
      for (let i = 0; i < Number(rest); i++) items.push(await reply());
      return items;
    }
  }
}

function redis(...parts) {
  const raw = parts.map((part) => (Buffer.isBuffer(part) ? part : Buffer.from(String(part))));
  const bulk = raw.flatMap((part) => [`$${part.length}\r\n`, part, "\r\n"]);
  socket.write(Buffer.concat([`*${raw.length}\r\n`, ...bulk].map((part) => Buffer.from(part))));
  return reply();
}

// --- Fleethook

const fields = (event) => ["id", event.id, "source", event.source, "event", event.type, "host", event.host,
                           "body", pack({ v: 1, ...event })];

async function publish(event) {
  await redis("XADD", `${prefix}events`, "*", ...fields(event));
}

async function ask(event, seconds) {
  if (!(await redis("EXISTS", `${prefix}alive:evaluator`))) return { decision: "abstain", fallback: "no evaluator" };
  const list = `${prefix}reply:${randomBytes(16).toString("hex")}`;
  await redis("XADD", `${prefix}requests`, "*", "reply", list, "budget", seconds * 1000, ...fields(event));
  const answer = await redis("BLPOP", list, seconds);
  // Fields with their default are left out of a reply.
  return { decision: "abstain", ...(answer ? unpack(answer[1]) : { fallback: "no answer in time" }) };
}

if (password) await redis("AUTH", user || "default", decodeURIComponent(password));
const call = { source: "deployer", host: "build-7", tool: "bash", input: { command: process.argv[2] ?? "make deploy" } };
const verdict = await ask({ ...call, type: "tool:pre_execute", id: `ask-${randomBytes(8).toString("hex")}` }, 5);
console.log(JSON.stringify(verdict));
if (verdict.decision !== "deny") {
  await publish({ ...call, type: "tool:post_execute", id: `done-${randomBytes(8).toString("hex")}` });
}
socket.end();
