/* Endpoints: found and paged by netmaster. No events tell of endpoints, so the page in sight is read anew. */

import { ask } from "../api.js";
import { field, h, say } from "../dom.js";
import { poll } from "../live.js";
import { keep, to } from "../router.js";
import { rowsTable } from "../table.js";

const PAGE = 100;
const PAUSE = 500; // milliseconds between two looks
const TYPING = 200; // milliseconds after the last key until netmaster is asked
const FILTERS = {
  tenant: "Tenant", network: "Network", group: "Group", host: "Host", address: "Address or prefix",
  label: "Label (name or name=value)", container: "Container id",
};

export const title = () => "Endpoints";

export async function show(root, view) {
  const { query, signal, fail, well } = view;
  const form = h("form", { class: "filters", role: "search", on: { input: typed, submit: (event) => event.preventDefault() } },
    Object.entries(FILTERS).map(([name, label]) => field(label, h("input", { name, type: "search", value: query[name] || "" }))));
  const summary = h("p", { class: "summary" });
  const more = h("button", { type: "button", on: { click: () => extend() } }, "More");
  const table = rowsTable("Endpoints", [
    { head: "Address", of: (one) => one.addresses.join(", ") },
    { head: "Name", of: (one) => one.containerName },
    { head: "Tenant", of: (one) => one.tenant },
    { head: "Network", of: (one) => one.network },
    { head: "Group", of: (one) => one.group },
    { head: "Host", of: (one) => one.host },
    { head: "MAC", of: (one) => one.mac },
    { head: "Trace", of: (one) => h("a", { href: to("trace", { src: one.key }), "aria-label": `Trace from ${one.containerName || one.key}` }, "from") },
  ], { onEnd: () => extend() });
  root.append(form, summary, table.node, more);
  let pages = []; // {after, items, next}
  let asked = 0; // which question is the present one
  let waiting = 0;
  let busy = false;

  function wanted() {
    return Object.fromEntries([...new FormData(form)].map(([name, text]) => [name, text.trim()]));
  }

  async function page(after) {
    const found = await ask("endpoints", { query: { ...wanted(), limit: PAGE, after }, signal });
    return { after, ...found };
  }

  /* Shows the pages that some work gives, unless something else was asked meanwhile. */
  async function taken(work) {
    const question = asked;
    try {
      const found = await work();
      if (question !== asked) return;
      pages = found;
      draw();
    } catch (error) {
      if (error.status === 400) summary.textContent = error.message;
      else if (question === asked) throw error;
    }
  }

  function typed() {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      asked += 1;
      keep(wanted());
      await taken(async () => [await page("")]).then(well, fail);
      say(summary.textContent);
    }, TYPING);
  }

  async function extend() {
    if (busy || !pages.length || !pages.at(-1).next) return;
    busy = true;
    await taken(async () => [...pages, await page(pages.at(-1).next)]).catch(fail);
    busy = false;
  }

  function draw() {
    const rows = pages.flatMap((one) => one.items);
    const further = Boolean(pages.at(-1).next);
    summary.textContent = `${rows.length} endpoints${further ? " shown, there are more" : ""}`;
    more.hidden = !further;
    table.set(rows);
  }

  /* Reads the page in sight anew; with several pages, the one in the middle of the screen. */
  async function refresh() {
    if (busy) return;
    const rowsAbove = table.node.scrollTop / Math.max(1, table.node.scrollHeight);
    const at = Math.min(pages.length - 1, Math.floor(rowsAbove * pages.length));
    busy = true;
    try {
      await taken(async () => {
        const fresh = await page(at > 0 ? pages[at].after : "");
        return at < 0 ? [fresh] : pages.map((one, number) => (number === at ? joined(fresh, pages[number + 1]) : one));
      });
    } finally {
      busy = false;
    }
  }

  await poll(refresh, PAUSE, view);
}

/* A page that is read anew ends where the next one begins, so that no row is shown twice. */
function joined(page, following) {
  if (!following) return page;
  return { ...page, items: page.items.filter((one) => one.key <= following.after), next: following.after };
}
