// Plays OpenCode for our plugin: loads the file as OpenCode does, calls its hooks as the script on stdin says, and prints
// what became of each call, and what the plugin asked OpenCode's client to do.
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { connect } from "node:net"
import { pathToFileURL } from "node:url"

const { plugin, steps, directory } = JSON.parse(readFileSync(0, "utf8"))
const told = []
const note = (name) => async (said) => (told.push({ name, ...said }), { response: { ok: true } })
const client = {
  _client: { post: note("post") },
  tui: { showToast: note("toast") },
  session: { promptAsync: note("prompt") },
  postSessionIdPermissionsPermissionId: note("permission"),
}
const loaded = Object.values(await import(pathToFileURL(plugin).href))
if (loaded.length !== 1 || typeof loaded[0] !== "function") throw new Error("OpenCode takes every export for a plugin")
const hooks = await loaded[0]({ client, directory, worktree: directory, project: {} })
const accepts = (socket) =>
  new Promise((resolve) => {
    const one = connect(socket, () => resolve(one.destroy()))
    one.on("error", () => resolve(null))
  })
const results = []
for (let { hook, input, output, known } of steps) {
  const start = Date.now()
  const args = output?.args // OpenCode goes on with the object that it has
  let threw = null
  try {
    if (hook === "signal") process.kill(...input)
    else if (hook === "run") output = execFileSync(input[0], input.slice(1)).toString().trim()
    else if (hook === "refused") while (await accepts(input)) await new Promise((resolve) => setTimeout(resolve, 5))
    else if (hook === "until") while (told.length < known) await new Promise((resolve) => setTimeout(resolve, 5))
    else await hooks[hook](input, output)
  } catch (error) {
    threw = error.message
  }
  results.push({ threw, output, ...(args ? { args } : {}), ms: Date.now() - start })
}
await hooks.dispose()
process.stdout.write(JSON.stringify({ results, told }))
