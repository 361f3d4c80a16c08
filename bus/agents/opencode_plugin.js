// Fleethook in OpenCode: each event goes to this machine's gateway by one connection that stays open, or else to the bus
// through the hook command, and its answer is carried out here.
// Written by `fleethook install`, removed by `fleethook uninstall`. OpenCode has no limit of time for a plugin, so this
// one brings its own, and lets nothing that goes wrong here stop the agent, except where it was installed to fail closed.

import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { existsSync, readFileSync } from "node:fs"
import { connect } from "node:net"
import { dirname, join } from "node:path"

const SETUP = {}

const GONE = "fleethook is gone and this hook fails closed; install fleethook again, or remove this plugin"
const KEPT = ["PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "FLEETHOOK_PARENT"]
const MOST_WAITING = 1000 // events that may wait for the one before them
const MOST_GOES = 8 // times in a row that an agent which stopped is told to go on
const FIRST_ANSWER = 250 // milliseconds for a gateway to say that it is ready
const AVOIDED = 10_000 // milliseconds without a gateway that did not answer
const MOST_IDLE = 4 // connections that wait for a call
const MOST_ANSWER = 32 * 1024 * 1024 // bytes

// What of the answer file says where the gateway is: {socket, namespace, host}. Null where hook commands ask another machine.
function place() {
  try {
    const rows = readFileSync(SETUP.answers, "utf8").split("\n").map((line) => line.split("\t"))
    const row = (name) => rows.find(([first]) => first === name)?.slice(1) ?? []
    const [kind, address] = row("server")
    if (kind !== "unix") return null
    const socket = row("gateway").length ? address : join(dirname(address), "gateway.sock")
    return existsSync(socket) ? { socket, namespace: row("prefix")[0].split(":")[1], host: row("host")[0] } : null
  } catch {
    return null
  }
}

// A connection to a gateway. `ask` takes a request and gives {status, headers, body}, or rejects; one request at a time.
class Connection {
  constructor(socket) {
    this.socket = connect(socket)
    this.taken = Buffer.alloc(0)
    this.asking = null
    const end = (error) => {
      this.dead = true
      this.asking?.reject(error ?? new Error("the gateway closed the connection"))
    }
    this.socket.on("error", end)
    this.socket.on("close", () => end())
    this.socket.on("data", (chunk) => {
      this.taken = Buffer.concat([this.taken, chunk])
      this.read()
    })
  }

  read() {
    const end = this.taken.indexOf("\r\n\r\n")
    if (end < 0) return this.taken.length > 65536 && this.close()
    const [first, ...lines] = this.taken.subarray(0, end).toString("latin1").split("\r\n")
    const headers = Object.fromEntries(lines.map((line) => [line.split(":", 1)[0].toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]))
    const size = Number(headers["content-length"] ?? Number.NaN)
    if (!(size >= 0 && size <= MOST_ANSWER) || !this.asking) return this.close()
    if (this.taken.length < end + 4 + size) return
    const body = this.taken.subarray(end + 4, end + 4 + size).toString()
    this.taken = this.taken.subarray(end + 4 + size)
    if (headers.connection === "close") this.close()
    this.asking.resolve({ status: Number(first.split(" ")[1]), headers, body })
  }

  ask(head, body, milliseconds) {
    this.socket.ref()
    return new Promise((resolve, reject) => {
      this.asking = { resolve, reject }
      this.timer = setTimeout(() => {
        reject(Object.assign(new Error("no answer in time"), { late: true }))
        this.close()
      }, milliseconds)
      this.socket.write(`${head}\r\nHost: localhost\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
    }).finally(() => {
      clearTimeout(this.timer)
      this.asking = null
      this.socket.unref() // what waits for a call does not keep the agent alive
    })
  }

  close() {
    this.dead = true
    this.socket.destroy()
  }
}

// The gateway of this machine, where it serves the fleet of the hook commands; connections that no call uses wait in `idle`.
const gateway = { idle: [], avoided: 0 }

async function ready() {
  for (let one; (one = gateway.idle.pop()); ) if (!one.dead) return one
  const at = place()
  if (at === null) return null
  const one = new Connection(at.socket)
  try {
    const { status, headers } = await one.ask("GET /readyz HTTP/1.1", "", FIRST_ANSWER)
    if (status === 200 && headers["fleethook-namespace"] === at.namespace) return Object.assign(one, { host: at.host })
  } catch {} // it has just ended, or another program is there
  one.close()
  return null
}

// The answer of the gateway to an event: as the hook command's. Null where the hook command has to ask. Never rejects.
async function ask(event, payload) {
  if (Date.now() < gateway.avoided) return null
  const closed = SETUP.events[event] === "closed"
  const until = Date.now() + SETUP.timeout
  const id = randomUUID().replaceAll("-", "")
  const parent = process.env.FLEETHOOK_PARENT
  const head = [
    `POST /v1/hooks/opencode/${encodeURIComponent(event)}${closed ? "?on_failure=deny" : ""} HTTP/1.1`,
    "Content-Type: application/json",
    "Accept: application/vnd.fleethook.answer+json",
    `Idempotency-Key: ${id}`, // a connection may break after the gateway has taken the event: sent again, it counts once
    ...(/^[\w-]{1,64}$/.test(parent ?? "") ? [`Fleethook-Parent: ${parent}`] : []),
  ]
  let body
  try {
    body = JSON.stringify(payload)
  } catch {
    return null // what JSON cannot say; the hook command tells so
  }
  for (let left = 2; left > 0; left -= 1) {
    const one = await ready()
    if (one === null) break
    try {
      const host = /^[\x21-\x7e]{1,255}$/.test(one.host) ? [`Fleethook-Host: ${one.host}`] : []
      const answer = await one.ask([...head, ...host].join("\r\n"), body, Math.max(1, until - Date.now()))
      if (!one.dead && gateway.idle.length < MOST_IDLE) gateway.idle.push(one)
      else one.close()
      if (answer.status !== 200) return null
      const { exit_code: code, stdout: out, stderr: err } = JSON.parse(answer.body)
      return { code, out, err }
    } catch (error) {
      one.close()
      if (error.late) {
        gateway.avoided = Date.now() + AVOIDED
        return { code: closed ? 2 : 1, out: "", err: `fleethook: no answer: the gateway took longer than ${SETUP.timeout} ms` }
      }
    }
  }
  gateway.avoided = Date.now() + (place() === null ? 0 : AVOIDED / 10)
  return null
}

// What Fleethook says to an event: an exit code (1 where there is none), stdout and stderr. Never rejects.
const run = async (event, payload) => (await ask(event, payload)) ?? command(event, payload)

// One run of the hook command. Never rejects.
function command(event, payload) {
  return new Promise((resolve) => {
    const closed = SETUP.events[event] === "closed"
    const fail = (why) => resolve({ code: closed ? 2 : 1, out: "", err: `fleethook: no answer: ${why}` })
    try {
      const [program, ...words] = SETUP.command
      if (!existsSync(program) || !existsSync(words.at(-1))) {
        return resolve({ code: closed ? 2 : 1, out: "", err: GONE })
      }
      const body = JSON.stringify(payload)
      const env = Object.fromEntries(KEPT.filter((name) => name in process.env).map((name) => [name, process.env[name]]))
      const child = spawn(program, [...words, "opencode", event, SETUP.answers, ...(closed ? ["closed"] : [])], { env })
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
      fail(error.message) // a payload that JSON cannot say, no process to be had
    }
  })
}

// The answer: {deny?, args?, output?, context?, allow?, note?}. Exit 2 denies with its stderr, any other but 0 is a failure.
function read({ code, out, err }) {
  if (code === 2) return { deny: err.trim() || "Fleethook blocks this and gives no reason." }
  if (code !== 0) return {}
  try {
    const said = JSON.parse(out)
    return said !== null && typeof said === "object" ? said : {}
  } catch {
    return {} // most often it says nothing
  }
}

// An id for a part that sorts after the one given, in the form of OpenCode's own.
function partId(after) {
  const at = /^prt_([0-9a-f]{12})/.exec(after ?? "")
  const time = at ? BigInt(`0x${at[1]}`) + 1n : (BigInt(Date.now()) * 0x1000n) & 0xffffffffffffn
  const tail = Array.from({ length: 14 }, () => Math.floor(Math.random() * 36).toString(36)).join("")
  return `prt_${time.toString(16).padStart(12, "0")}${tail}`
}

function replace(args, wanted) {
  for (const name of Object.keys(args)) if (!(name in wanted)) delete args[name]
  Object.assign(args, wanted) // in place: OpenCode goes on with the object that it has
}

function append(output, text) {
  if (typeof output.output === "string") output.output += `\n\n${text}`
  else if (Array.isArray(output.content)) output.content.push({ type: "text", text })
}

function replaceOutput(output, text) {
  if (typeof output.output === "string") output.output = text
  else if (Array.isArray(output.content)) output.content = [{ type: "text", text }]
  // What the person sees of it is made of the metadata in some tools: a secret may not stay there either.
  if (typeof output.metadata?.output === "string") output.metadata.output = text
}

const joined = (...texts) => texts.filter(Boolean).join("\n\n")

export const Fleethook = async ({ client, directory, worktree }) => {
  const parents = new Map() // by subagent's session: the session that started it
  const started = new Map() // by session: the promise of the context that its start was given
  const contexts = new Map() // by call: the context that it was given before, told with its result
  const denied = new Set() // calls that were denied here: no failures of a tool
  const goes = new Map() // by session: how often in a row it was told to go on
  let servers = []
  let last = Promise.resolve()
  let waiting = 0

  const wanted = (event) => Object.hasOwn(SETUP.events, event)
  const payload = (hook, input, output, more = {}) => ({ hook, directory, worktree, input, output, ...more })
  const call = (input) => `${input.sessionID}/${input.callID}`

  // Tells the person, as far as OpenCode can show it.
  const tell = (message) =>
    Promise.resolve(client?.tui?.showToast?.({ body: { title: "Fleethook", message, variant: "warning" } })).catch(() => {})

  const decide = async (event, body) => {
    const said = read(await run(event, body))
    if (said.note) tell(said.note)
    return said
  }

  // One after the other, so that events arrive in order; the agent does not wait.
  const send = (event, body) => {
    if (waiting >= MOST_WAITING) return
    waiting += 1
    last = last.then(() => run(event, body)).then(() => (waiting -= 1))
  }

  // The MCP server of a tool, whose name OpenCode writes before the tool's.
  const server = (tool) => {
    const found = servers.filter((name) => tool?.startsWith(`${name}_`)).sort((a, b) => b.length - a.length)[0]
    return found ? { server: found } : {}
  }

  const addPart = (output, text) => {
    const { id: messageID, sessionID } = output.message
    const id = partId(output.parts.at(-1)?.id)
    output.parts.push({ id, sessionID, messageID, type: "text", text, synthetic: true })
  }

  const reply = async ({ id, sessionID }, said) => {
    if (!said.deny && !said.allow) return // the person is asked
    const response = said.deny ? "reject" : "once"
    // The route of 1.18 hands the reason to the model; the client's own method has no place for one.
    const route = { url: "/permission/{requestID}/reply", path: { requestID: id } }
    const body = { reply: response, ...(said.deny ? { message: said.deny } : {}) }
    const done = await client._client?.post?.({ ...route, body, headers: { "Content-Type": "application/json" } })
    if (done?.response?.ok) return
    await client.postSessionIdPermissionsPermissionId({ path: { id: sessionID, permissionID: id }, body: { response } })
  }

  const goOn = async (id, said) => {
    const count = goes.get(id) ?? 0
    if (!said.deny || count >= MOST_GOES) return goes.delete(id)
    goes.set(id, count + 1)
    await client.session.promptAsync({ path: { id }, body: { parts: [{ type: "text", text: said.deny }] } })
  }

  const onEvent = async ({ type, properties }, body) => {
    const id = properties?.sessionID ?? properties?.info?.id
    if (type === "session.created") {
      if (properties.info?.parentID) parents.set(id, properties.info.parentID)
      if (wanted(type)) started.set(id, decide(type, body).then((said) => said.context))
      return
    }
    if (type === "message.part.updated") {
      const part = properties.part
      if (part?.type !== "tool" || part.state?.status !== "error" || denied.delete(call(part))) return
      if (wanted(type)) send(type, { ...body, ...server(part.tool) })
      return
    }
    if (!wanted(type)) return
    if (type === "permission.asked") return reply(properties, await decide(type, body))
    if (type === "session.idle") {
      const more = { goes: goes.get(id) ?? 0, ...(parents.has(id) ? { parent: parents.get(id) } : {}) }
      return goOn(id, await decide(type, { ...body, ...more }))
    }
    send(type, body)
    if (type === "session.deleted") for (const known of [parents, started, goes]) known.delete(id)
  }

  const hooks = {
    config: async (config) => {
      servers = Object.keys(config?.mcp ?? {}).map((name) => name.replace(/[^a-zA-Z0-9_-]/g, "_"))
    },
    event: async ({ event }) => {
      // Not awaited: OpenCode may wait for this before it goes on, and nothing here can hold it back.
      onEvent(event, payload("event", { event })).catch((error) => tell(`${event?.type}: ${error.message}`))
    },
    dispose: async () => {
      await last
      for (const one of gateway.idle.splice(0)) one.close()
    },
    "chat.message": async (input, output) => {
      const text = await started.get(input.sessionID)
      started.delete(input.sessionID)
      const said = wanted("chat.message") ? await decide("chat.message", payload("chat.message", input, output)) : {}
      if (said.deny) throw new Error(said.deny)
      const context = joined(text, said.context)
      if (context) addPart(output, context)
    },
    "chat.params": async (input) => {
      if (!wanted("chat.params")) return
      const { sessionID, agent, model, message } = input // the rest holds the provider's key
      const slim = { id: model?.id, providerID: model?.providerID }
      send("chat.params", payload("chat.params", { sessionID, agent, model: slim, message }))
    },
    "tool.execute.before": async (input, output) => {
      if (!wanted("tool.execute.before")) return
      const body = payload("tool.execute.before", input, { args: output.args }, server(input.tool))
      const said = await decide("tool.execute.before", body)
      if (said.deny) {
        denied.add(call(input))
        throw new Error(joined(said.deny, said.context))
      }
      if (said.args) replace(output.args, said.args)
      if (said.context) contexts.set(call(input), said.context)
    },
    "tool.execute.after": async (input, output) => {
      const before = contexts.get(call(input))
      contexts.delete(call(input))
      const body = payload("tool.execute.after", input, output, server(input.tool))
      const said = wanted("tool.execute.after") ? await decide("tool.execute.after", body) : {}
      if (typeof said.output === "string") replaceOutput(output, said.output)
      const text = joined(before, said.deny, said.context)
      if (text) append(output, text)
    },
    "command.execute.before": async (input, output) => {
      if (!wanted("command.execute.before")) return
      const said = await decide("command.execute.before", payload("command.execute.before", input, output))
      if (said.deny) throw new Error(said.deny)
      if (said.context) output.parts.push({ type: "text", text: said.context })
    },
    "experimental.text.complete": async (input, output) => {
      if (wanted("experimental.text.complete")) {
        send("experimental.text.complete", payload("experimental.text.complete", input, output))
      }
    },
    "experimental.session.compacting": async (input, output) => {
      if (!wanted("experimental.session.compacting")) return
      const body = payload("experimental.session.compacting", input, output)
      const said = await decide("experimental.session.compacting", body)
      if (said.context) output.context.push(said.context)
    },
  }
  return hooks
}
