// What each of OpenCode's hooks asks the bus, and how the answer is carried out. In the file that `install` writes, this comes
// after `opencode_link.js`, which has `run`.

const MOST_WAITING = 1000 // events that may wait for the one before them
const MOST_GOES = 8 // times in a row that an agent which stopped is told to go on

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
    const said = read(await run(prepared(event, body)))
    if (said.note) tell(said.note)
    return said
  }

  // One after the other, so that events arrive in order; the agent does not wait.
  const send = (event, body) => {
    if (waiting >= MOST_WAITING) return
    waiting += 1
    const what = prepared(event, body, true)
    last = last.then(() => run(what)).then(() => (waiting -= 1))
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
      closeAll()
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
      const later = mode("tool.execute.after") === "later"
      if (later) send("tool.execute.after", body)
      const said = wanted("tool.execute.after") && !later ? await decide("tool.execute.after", body) : {}
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
