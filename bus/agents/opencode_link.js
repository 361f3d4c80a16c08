// Fleethook in OpenCode: how an event reaches the bus. It goes to this machine's server by a connection that stays open, or to
// its gateway by another one, or to the bus through the hook command. `opencode_plugin.js` has the hooks.
// Written by `fleethook install`, removed by `fleethook uninstall`. OpenCode has no limit of time for a plugin, so this
// one brings its own, and lets nothing that goes wrong here stop the agent, except where it was installed to fail closed.

import { spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { existsSync, readFileSync, statSync } from "node:fs"
import { connect } from "node:net"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const SETUP = {}

// How each event is asked: `wait`, `closed` (denied without an answer), `send` (never an answer), `later` (no hook in force
// answers). A worker changes `later` in this file when such a hook comes into force, so it is read again when it has changed.
let modes = { changed: null, events: SETUP.events }

function mode(event) {
  try {
    const file = fileURLToPath(import.meta.url)
    const changed = statSync(file).mtimeMs
    if (changed !== modes.changed) {
      const [, text] = readFileSync(file, "utf8").split("\nconst SETUP = ", 2)
      modes = { changed, events: JSON.parse(text.slice(0, text.indexOf("\n}\n") + 2)).events }
    }
  } catch {} // it was not loaded from a file, or is just being written: what was known counts
  return modes.events[event]
}

const GONE = "fleethook is gone and this hook fails closed; install fleethook again, or remove this plugin"
const KEPT = ["PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "FLEETHOOK_PARENT"]
const FIRST_ANSWER = 250 // milliseconds for a server or gateway to say that it is ready
const TAKEN = 1000 // milliseconds for a server to confirm what it was sent
const LOOK = 1000 // milliseconds of one wait for an answer; after each, a note shows whether a slow hook still runs
const AGAIN = 5000 // milliseconds after an outage until an evaluator says that it works at a call that was asked again
const GRACE = 50 // milliseconds after each such time
const AVOIDED = 10_000 // milliseconds without a server or gateway that did not answer
const MOST_IDLE = 4 // connections that wait for a call
const NOTHING = Buffer.from("FH1 0 0 0\n") // what is answered to an event that is only announced
const MOST_ANSWER = 32 * 1024 * 1024 // bytes

// What the answer file says, which is read again when it has changed: where the server and the gateway are, and each event's
// row. Null where hook commands ask another machine.
let known = { changed: null, at: null }

function place() {
  try {
    const changed = statSync(SETUP.answers).mtimeMs
    if (changed !== known.changed) known = { changed, at: readPlace() }
    return known.at
  } catch {
    return null
  }
}

function readPlace() {
  const rows = readFileSync(SETUP.answers, "utf8").split("\n").map((line) => line.split("\t"))
  const row = (name) => rows.find(([first]) => first === name)?.slice(1) ?? []
  const [kind, address] = row("server")
  if (kind !== "unix") return null
  const byGateway = row("gateway").length > 0
  const [prefix, host, db] = ["prefix", "host", "db"].map((name) => row(name)[0])
  return {
    server: byGateway ? null : address,
    gateway: byGateway ? address : join(dirname(address), "gateway.sock"),
    auth: row("auth").map((part) => Buffer.from(part, "hex")),
    events: new Map(rows.filter(([first]) => first === "event").map(([, name, ...fields]) => [name, fields])),
    namespace: prefix.split(":")[1],
    prefix,
    host,
    db,
  }
}

// A connection. `parse` takes what has arrived and gives {value, size} for a reply at its start, null while one is not whole;
// it throws for what is no reply. One call at a time.
class Connection {
  constructor(socket, parse) {
    this.socket = connect(socket)
    this.parse = parse
    this.arrived = Buffer.alloc(0)
    this.asking = null
    const end = (error) => {
      this.dead = true
      this.asking?.reject(error ?? new Error("the connection was closed"))
    }
    this.socket.on("error", end)
    this.socket.on("close", () => end())
    this.socket.on("data", (chunk) => {
      this.arrived = this.arrived.length ? Buffer.concat([this.arrived, chunk]) : chunk
      this.read()
    })
  }

  // Hands over the replies that are whole, once there are as many as are waited for.
  read() {
    try {
      while (this.asking && this.asking.replies.length < this.asking.count) {
        const found = this.parse(this.arrived)
        if (found === null) return this.arrived.length > MOST_ANSWER && this.close()
        this.arrived = this.arrived.subarray(found.size)
        this.asking.replies.push(found.value)
      }
      this.asking?.resolve(this.asking.replies)
    } catch (error) {
      this.asking?.reject(error)
      this.close()
    }
  }

  // The next replies, after `data` was sent. Rejects with `late` if they take too long, and closes the connection then.
  replies(count, milliseconds, data) {
    this.socket.ref()
    let timer
    return new Promise((resolve, reject) => {
      this.asking = { count, replies: [], resolve, reject }
      if (this.dead) return reject(new Error("the connection was closed"))
      const late = () => this.close(reject(Object.assign(new Error("no answer in time"), { late: true })))
      // An agent that was busy itself for so long first reads what has arrived.
      timer = setTimeout(() => (timer = setTimeout(late, GRACE)), milliseconds)
      if (data !== undefined) this.socket.write(data)
      if (this.arrived.length) this.read()
    }).finally(() => {
      clearTimeout(timer)
      this.asking = null
      this.socket.unref() // what waits for a call does not keep the agent alive
    })
  }

  close() {
    this.dead = true
    this.socket.destroy()
  }
}

function httpReply(data) {
  const end = data.indexOf("\r\n\r\n")
  if (end < 0) {
    if (data.length > 65536) throw new Error("not an answer by HTTP")
    return null
  }
  const [first, ...lines] = data.subarray(0, end).toString("latin1").split("\r\n")
  const headers = Object.fromEntries(lines.map((line) => [line.split(":", 1)[0].toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]))
  const size = Number(headers["content-length"] ?? Number.NaN)
  if (!(size >= 0 && size <= MOST_ANSWER)) throw new Error("an answer by HTTP without a length")
  if (data.length < end + 4 + size) return null
  const body = data.subarray(end + 4, end + 4 + size).toString()
  return { value: { status: Number(first.split(" ")[1]), headers, body }, size: end + 4 + size }
}

function redisReply(data) {
  const end = data.indexOf("\r\n")
  if (end < 0) return null
  const kind = String.fromCharCode(data[0])
  const text = data.toString("latin1", 1, end)
  if (kind === "$" && text !== "-1") {
    const after = end + 4 + Number(text)
    return data.length < after ? null : { value: data.subarray(end + 2, after - 2), size: after }
  }
  if (!"+:$*".includes(kind) || (kind === "*" && text !== "-1")) {
    throw Object.assign(new Error(`the server refuses: ${text.slice(0, 80)}`), { refused: true })
  }
  return { value: kind === "+" ? text : kind === ":" ? Number(text) : null, size: end + 2 }
}

function command(...words) {
  const parts = words.map((word) => (Buffer.isBuffer(word) ? word : Buffer.from(String(word))))
  const pieces = parts.flatMap((part) => [Buffer.from(`$${part.length}\r\n`), part, Buffer.from("\r\n")])
  return Buffer.concat([Buffer.from(`*${parts.length}\r\n`), ...pieces])
}

// Connections to one kind of place; `greet` finds out whether it is the right one.
const pool = (greet) => ({ idle: [], at: null, avoided: 0, greet })

const server = pool(async (at) => {
  if (!at.server || !existsSync(at.server)) return null
  const one = new Connection(at.server, redisReply)
  const hello = [...(at.auth[1]?.length ? [["AUTH", ...at.auth.filter((part) => part.length)]] : []), ["SELECT", at.db]]
  try {
    await one.replies(hello.length, FIRST_ANSWER, Buffer.concat(hello.map((words) => command(...words))))
    return one
  } catch {} // it has just ended, it hangs, or it does not know us
  server.avoided = Date.now() + AVOIDED / 10
  one.close()
  return null
})

const gateway = pool(async (at) => {
  if (!existsSync(at.gateway)) return null
  const one = new Connection(at.gateway, httpReply)
  try {
    const [{ status, headers }] = await one.replies(1, FIRST_ANSWER, http("GET /readyz HTTP/1.1", ""))
    if (status === 200 && headers["fleethook-namespace"] === at.namespace) return one
  } catch {} // it has just ended, or another program is there
  one.close()
  return null
})

const http = (head, body) => `${head}\r\nHost: localhost\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`

// A connection that no call uses, else a new one; null where none is to be had.
async function taken(from, at) {
  if (Date.now() < from.avoided) return null
  if (from.at !== at) for (const one of from.idle.splice(0)) one.close() // the answer file has changed
  from.at = at
  for (let one; (one = from.idle.pop()); ) if (!one.dead) return one
  return from.greet(at)
}

function back(to, one) {
  if (!one.dead && !one.arrived.length && to.idle.length < MOST_IDLE) to.idle.push(one)
  else one.close()
}

const closeAll = () => [server, gateway].forEach((one) => one.idle.splice(0).forEach((link) => link.close()))

// The bytes of a payload as msgpack's `bin`, which is the body of a stream entry.
function packed(text) {
  const body = Buffer.from(text)
  const head = Buffer.alloc(body.length < 256 ? 2 : body.length < 65536 ? 3 : 5)
  head[0] = head.length === 2 ? 0xc4 : head.length === 3 ? 0xc5 : 0xc6
  head.writeUIntBE(body.length, 1, head.length - 1)
  return Buffer.concat([head, body])
}

// {code, out, err} of a reply that starts with `FH1 CODE BYTES-OF-OUT BYTES-OF-ERR`; throws for another form.
function unpacked(raw) {
  const end = raw.indexOf("\n")
  const [magic, code, out, err] = raw.toString("latin1", 0, end).split(" ")
  const texts = [[0, out], [Number(out), err]].map(([from, size]) => raw.subarray(end + 1 + from, end + 1 + from + Number(size)).toString())
  if (end < 0 || magic !== "FH1" || !(code >= 0 && code < 256)) throw new Error("answer not understood")
  return { code: Number(code), out: texts[0], err: texts[1] }
}

// The answer of the server to an event. Null where another way has to be taken, with the same id: an id that arrives twice is
// evaluated once. `late` where the time is over. Never rejects.
async function askServer(call, body) {
  const at = place()
  const [way, deadline, , , , policy, patience] = at?.events.get(call.event) ?? at?.events.get("*") ?? []
  if (!at?.server || !["request", "publish"].includes(way)) return null
  const asked = {
    at,
    publish: call.later || way === "publish",
    reply: `${at.prefix}reply:${randomBytes(16).toString("hex")}`,
    again: 0,
    soft: call.start + Number(deadline) * 0.8, // the rest is for what happens without an answer
    hard: call.start + Math.min(Math.max(Number(deadline), Number(patience) || 0), SETUP.timeout) * 0.9,
    fields: [
      ...["source", "opencode", "event", call.event, "policy", call.closed ? "deny" : policy, "host", at.host],
      ...["by", `opencode-plugin/${SETUP.version}`, "user", process.getuid?.() ?? 0, "body", packed(body)],
      ...(call.parent ? ["parent", call.parent] : []),
    ],
  }
  for (let left = 2; left > 0; left -= 1) {
    const one = await taken(server, at)
    if (one === null) return null
    try {
      const raw = await exchange(one, call.id, asked)
      back(server, one)
      return raw === null ? { late: true } : unpacked(raw)
    } catch (error) {
      one.close()
      if (error.late) server.avoided = Date.now() + AVOIDED
      if (error.late || error.refused) return null
      if (Date.now() >= asked.soft) asked.again = Date.now() + AGAIN // a slow hook ran, and is asked for again
    }
  }
  return null
}

// The reply of the server, null without one in time. Throws where the connection breaks, and `refused` where none can be had.
async function exchange(one, id, { at, publish, reply, soft, hard, again, fields }) {
  if (publish) {
    await one.replies(1, TAKEN, command("XADD", `${at.prefix}events`, "*", "id", id, ...fields))
    return NOTHING
  }
  const look = (milliseconds) => command("BLMOVE", reply, reply, "LEFT", "LEFT", (milliseconds / 1000).toFixed(3))
  const [budget, patience] = [again ? hard : soft, hard].map((until) => Math.max(1, Math.round(until - Date.now())))
  const times = ["reply", reply, "budget", budget, ...(hard > soft ? ["patience", patience] : [])]
  const add = ["XADD", `${at.prefix}requests`, "NOMKSTREAM", "*", "id", id, ...times, ...fields]
  const words = [command("EXISTS", `${at.prefix}alive:evaluator`), command(...add), look(LOOK)]
  const [alive, added] = await one.replies(2, TAKEN, Buffer.concat(words))
  // A server that lost its data has no such stream until an evaluator is back; the hook command waits for it.
  if (!alive || added === null) throw Object.assign(new Error("no evaluator"), { refused: true })
  const [first] = await one.replies(1, LOOK + TAKEN)
  return first ?? waitLonger(one, reply, look, soft, hard, again)
}

// The answer to a call for which a slow hook runs, or a person is asked: a note beside the reply key says so, and has the answer
// that counts if no other one comes. A call that was asked again has until then for the first note. Null without an answer.
async function waitLonger(one, reply, look, soft, hard, until) {
  const note = `${reply}:wait`
  let provisional = null
  for (let now; (now = Date.now()) < Math.max(soft, hard); ) {
    const [runs] = await one.replies(1, TAKEN, command("BLMOVE", note, note, "LEFT", "LEFT", "0.001"))
    if (runs?.toString("latin1", 0, 4) === "FH1 ") provisional = runs
    const going = runs || now < until
    if (!going && now >= soft) break
    const wait = Math.max(1, Math.min(LOOK, (going ? hard : soft) - now))
    const [answer] = await one.replies(1, wait + TAKEN, look(wait))
    if (answer) return answer
  }
  return provisional
}

// The answer of the gateway to an event. Null where the hook command has to ask. Never rejects.
async function askGateway(call, body, late) {
  const query = new URLSearchParams({ ...(call.closed ? { on_failure: "deny" } : {}), ...(late ? { wait: "1ms" } : {}) })
  const head = [
    `POST /v1/hooks/opencode/${encodeURIComponent(call.event)}?${query} HTTP/1.1`,
    "Content-Type: application/json",
    "Accept: application/vnd.fleethook.answer+json",
    `Idempotency-Key: ${call.id}`, // a connection may break after the gateway has taken the event: sent again, it counts once
    ...(call.parent ? [`Fleethook-Parent: ${call.parent}`] : []),
  ]
  for (let left = 2; left > 0; left -= 1) {
    const at = place()
    const one = at && (await taken(gateway, at))
    if (!one) break
    try {
      const host = /^[\x21-\x7e]{1,255}$/.test(at.host) ? [`Fleethook-Host: ${at.host}`] : []
      const [answer] = await one.replies(1, Math.max(1, call.start + SETUP.timeout - Date.now()), http([...head, ...host].join("\r\n"), body))
      if (answer.headers.connection === "close") one.close()
      back(gateway, one)
      if (answer.status !== 200) return null
      const { exit_code: code, stdout: out, stderr: err } = JSON.parse(answer.body)
      return { code, out, err }
    } catch (error) {
      one.close()
      if (error.late) {
        gateway.avoided = Date.now() + AVOIDED
        return noAnswer(call, `the gateway took longer than ${SETUP.timeout} ms`)
      }
    }
  }
  if (place() !== null && Date.now() >= gateway.avoided) gateway.avoided = Date.now() + AVOIDED / 10
  return null
}

const noAnswer = (call, why) => ({ code: call.closed ? 2 : 1, out: "", err: `fleethook: no answer: ${why}` })

// An event as it is now, for `run`: what OpenCode changes later is not in it.
function prepared(event, payload, later = false) {
  const parent = process.env.FLEETHOOK_PARENT
  const call = {
    event,
    id: `e${Date.now().toString(16).padStart(12, "0")}${randomBytes(10).toString("hex")}`,
    start: Date.now(),
    closed: SETUP.events[event] === "closed",
    parent: /^[\w-]{1,64}$/.test(parent ?? "") ? parent : "",
    later,
  }
  try {
    return { call, body: JSON.stringify(payload) }
  } catch (error) {
    return { call, unsaid: error.message } // what JSON cannot say
  }
}

// What Fleethook says to an event: an exit code (1 where there is none), stdout and stderr. Never rejects.
async function run({ call, body, unsaid }) {
  if (unsaid) return noAnswer(call, unsaid)
  const said = await askServer(call, body)
  if (said && !said.late) return said
  const other = await askGateway(call, body, said?.late)
  if (other) return other
  return said ? noAnswer(call, "the hooks took too long") : hookCommand(call, body)
}

// One run of the hook command. Never rejects.
function hookCommand(call, body) {
  return new Promise((resolve) => {
    const fail = (why) => resolve(noAnswer(call, why))
    try {
      const [program, ...words] = SETUP.command
      if (!existsSync(program) || !existsSync(words.at(-1))) {
        return resolve({ code: call.closed ? 2 : 1, out: "", err: GONE })
      }
      const env = Object.fromEntries(KEPT.filter((name) => name in process.env).map((name) => [name, process.env[name]]))
      const child = spawn(program, [...words, "opencode", call.event, SETUP.answers, ...(call.closed ? ["closed"] : call.later ? ["later"] : [])], { env })
      const timer = setTimeout(() => {
        child.kill("SIGKILL")
        fail(`the hook command took longer than ${SETUP.timeout} ms`)
      }, SETUP.timeout)
      const out = []
      const err = []
      child.stdout.on("data", (chunk) => out.push(chunk))
      child.stderr.on("data", (chunk) => err.push(chunk))
      child.stdin.on("error", () => {}) // it may answer before it has read all
      child.on("error", (error) => {
        clearTimeout(timer)
        fail(error.message)
      })
      child.on("close", (code) => {
        clearTimeout(timer)
        if (code === null) return fail("the hook command was killed")
        resolve({ code, out: Buffer.concat(out).toString(), err: Buffer.concat(err).toString() })
      })
      child.stdin.end(body)
    } catch (error) {
      fail(error.message) // no process to be had
    }
  })
}
