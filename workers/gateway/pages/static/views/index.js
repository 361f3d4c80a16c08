// The views, in the order of the bar.
//
// To add a view: write `views/NAME.js`, and add its line here. A view exports `open(page)`, which is called each time that
// somebody goes to `#/NAME`. It starts what it needs and returns a function that draws: it gives a template, is called after
// each change, and keeps no state in the document.
//
//     import { html } from "../lib/html.js";
//     import { filters, listed, mark, moment } from "../lib/parts.js";
//
//     export function open(page) {
//       const hooks = page.list("v1/hooks", { query: () => page.query, every: 10 });      // lib/page.js has what a page can do
//       return () => html`
//         <h1>Hooks</h1>
//         ${filters(page, [{ name: "source", label: "Agent" }], hooks.reload)}
//         ${listed(hooks, {                                                              // lib/parts.js has what views draw with
//           caption: "Hooks in force",
//           columns: [
//             { head: "Hook", name: true, cell: (hook) => hook.id },
//             { head: "Last run", cell: (hook) => hook.last_run && html`${mark(hook.last_run.what)} ${moment(hook.last_run.ms)}` },
//           ],
//           key: (hook) => hook.id,
//           empty: "No hook is in force; `fleethook hooks new` makes one.",
//         })}`;
//     }
//
// Rules: the state of filters is in the address (`page.query`), so that a link gives the same. What the gateway says is put
// in by `${…}` only, as text. No style attribute: the policy of the page forbids it; draw with classes, or with SVG. Every control
// has a label. Each view has one `h1`. A table's columns have heads, which a phone shows beside the values.

export const VIEWS = [
  { name: "live", title: "Live", nav: true, load: () => import("./live.js") },
  { name: "inbox", title: "Inbox", nav: true, load: () => import("./inbox.js") },
  { name: "history", title: "Events", nav: true, load: () => import("./history.js") },
  { name: "approvals", title: "Approvals", nav: true, load: () => import("./approvals.js") },
  { name: "sessions", title: "Sessions", nav: true, load: () => import("./sessions.js") },
  { name: "hosts", title: "Hosts", nav: true, load: () => import("./hosts.js") },
  { name: "hooks", title: "Hooks", nav: true, load: () => import("./hooks.js") },
  { name: "endpoints", title: "Endpoints", nav: true, load: () => import("./endpoints.js") },
  { name: "deliveries", title: "Deliveries", nav: true, load: () => import("./deliveries.js") },
  { name: "dead", title: "Dead letters", nav: true, load: () => import("./dead.js") },
  { name: "status", title: "Status", nav: true, load: () => import("./status.js") },
  { name: "stop", title: "Stop", nav: true, load: () => import("./stop.js") },
  { name: "events", title: "Event", load: () => import("./trace.js") },
];
