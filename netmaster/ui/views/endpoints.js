/* Endpoints: found, sorted and paged by netmaster; the page in sight is read anew when endpoints have changed. */

import { ask } from "../api.js";
import { conditionOf } from "../conditions.js";
import { facts, field, filters, h, link, moment, plainTable, progress, say } from "../dom.js";
import { bytes, endName, lacks, portOf, sparkline, verdictOf } from "../flowfeed.js";
import { follow } from "../live.js";
import { keep, to } from "../router.js";
import { rowsTable } from "../table.js";

const PAGE = 100;
const FLOWS = 20;
const TYPING = 200; // milliseconds after the last key until netmaster is asked
const FILTERS = {
  name: "Pod or container contains", label: "Label (name or name=value)", address: "Address or prefix", tenant: "Tenant",
  network: "Network", group: "Group", host: "Host", container: "Container id",
};
const NAMESPACE = "io.kubernetes.pod.namespace";
const POD = "io.kubernetes.pod.name";

export const title = () => "Endpoints";

export async function show(root, view) {
  const { query, signal, fail, well } = view;
  const fields = Object.entries(FILTERS).map(([name, label]) => [name, h("input", { name, type: "search", value: query[name] || "" }), label]);
  const form = filters({ input: typed }, fields.map(([, input, label]) => field(label, input)));
  const summary = h("p", { class: "summary" });
  const more = h("button", { type: "button", on: { click: () => extend() } }, "More");
  let sort = query.sort || "";
  const table = rowsTable("Endpoints", [
    { head: "Address", of: (one) => one.addresses.join(", "), by: "address" },
    { head: "Name", of: nameOf, by: "name" },
    { head: "Tenant", of: (one) => one.tenant, by: "tenant" },
    { head: "Network", of: (one) => one.network, by: "network" },
    { head: "Group", of: (one) => one.group, by: "group" },
    { head: "Host", of: (one) => one.host, by: "host" },
    { head: "Labels", of: (one) => labelsOf(one).join(" "), by: false },
    { head: "Trace", of: (one) => h("a", { href: to("trace", { src: one.key }), "aria-label": `Trace from ${nameOf(one) || one.key}` }, "from"), by: false },
  ], {
    onEnd: () => extend(),
    onSort(name, down) {
      sort = `${down ? "-" : ""}${name}`;
      anew();
    },
    open: (one) => open(one, signal),
    empty: ["No endpoint is like that. Clear a filter; if there is none at all, start a pod or a container on one of the networks, "
      + "and look whether the hosts are in step: ", link(to("hosts"), "Hosts")],
  });
  root.append(form, summary, table.node, more);
  let pages = []; // {after, items, next, total}
  let asked = 0; // which question is the present one
  let waiting = 0;
  let busy = false;

  function wanted() {
    return { ...Object.fromEntries(fields.map(([name, input]) => [name, input.value.trim()])), sort };
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

  async function anew() {
    asked += 1;
    keep(wanted());
    await taken(async () => [await page("")]).then(well, fail);
    say(summary.textContent);
  }

  function typed() {
    clearTimeout(waiting);
    waiting = setTimeout(anew, TYPING);
  }

  async function extend() {
    if (busy || !pages.length || !pages.at(-1).next) return;
    busy = true;
    await taken(async () => [...pages, await page(pages.at(-1).next)]).catch(fail);
    busy = false;
  }

  function draw() {
    const rows = pages.flatMap((one) => one.items);
    const { next, total } = pages.at(-1);
    summary.textContent = next ? `${rows.length} of ${total} endpoints shown` : `${total} endpoints`;
    more.hidden = !next;
    table.set(rows);
  }

  /* Reads the page in sight anew; with several pages, the one in the middle of the screen. */
  async function refresh() {
    const rowsAbove = table.region.scrollTop / Math.max(1, table.region.scrollHeight);
    const at = Math.min(pages.length - 1, Math.floor(rowsAbove * pages.length));
    await taken(async () => {
      const before = pages;
      const fresh = await page(at > 0 ? before[at].after : "");
      if (at < 0) return [fresh];
      return pages.map((one, number) => (one === before[at] ? joined(fresh, one, pages.slice(number + 1)) : { ...one, total: fresh.total }));
    });
  }

  await follow(["endpoints"], refresh, view);
}

/* A page that is read anew has no row of a later one. */
function joined(fresh, before, later) {
  if (!later.length) return fresh;
  const known = new Set(later.flatMap((one) => one.items).map((one) => one.key));
  return { ...fresh, items: fresh.items.filter((one) => !known.has(one.key)), next: before.next };
}

function nameOf(one) {
  return POD in one.labels ? `${one.labels[NAMESPACE] || ""}/${one.labels[POD]}` : one.containerName;
}

function labelsOf(one) {
  return Object.entries(one.labels).filter(([name]) => !name.startsWith("io.kubernetes.pod.")).map(([name, value]) => `${name}=${value}`);
}

function open(one, signal) {
  const flows = h("div", {}, progress("Asking the hosts for its flows").node);
  recent(one, signal).then((found) => flows.replaceChildren(...found), (error) => flows.replaceChildren(h("p", {}, error.message)));
  return [
    h("h2", {}, nameOf(one) || one.key),
    facts([
      ["Addresses", one.addresses.join(", ")], ["MAC", one.mac], ["Tenant", one.tenant], ["Network", one.network], ["Group", one.group],
      ["Host", link(to("hosts", { search: one.host }), one.host)], ["Container", one.container], ["Interface", one.interface],
      ["Labels", labelsOf(one).join(" ")], ["Key", one.key],
    ]),
    conditionOf("endpoints", one.key, signal),
    h("p", {}, link(to("trace", { src: one.key }), "Trace from it"), " ", link(to("trace", { dst: one.key }), "Trace to it"), " ",
      link(to("capture", { endpoint: one.key }), "Capture its packets"), " ",
      POD in one.labels && link(to("reach", { namespace: one.labels[NAMESPACE], pod: one.labels[POD], tenant: one.tenant }), "Who may talk to it")),
    flows,
  ];
}

/* The last flows of an endpoint, to it and from it. */
async function recent(one, signal) {
  const ways = ["from", "to"];
  const pages = await Promise.all(ways.map((way) => ask("flows", { query: { [`${way}Endpoint`]: one.key, limit: FLOWS }, signal })));
  const found = pages.flatMap(({ items }, at) => items.map((each) => ({ ...each, way: ways[at] })));
  found.sort((each, other) => (each.first < other.first ? 1 : -1));
  const rows = found.slice(0, FLOWS).map((each) => [
    moment(each.first), each.way === "from" ? "to" : "from", endName(each.way === "from" ? each.destination : each.source),
    portOf(each), verdictOf(each), bytes(each.bytes + each.answerBytes),
  ]);
  return [
    h("h3", {}, "Recent flows"), ...lacks(pages[0]).map((text) => h("p", {}, text)), sparkline(found),
    rows.length ? plainTable("Recent flows", ["Begun", "Way", "Other end", "Port", "Verdict", "Bytes"], rows) : h("p", {}, "No flow of it is recorded."),
    h("p", {}, link(to("flows", { fromEndpoint: one.key, range: "0" }), "All flows from it"), " ", link(to("flows", { toEndpoint: one.key, range: "0" }), "All flows to it")),
  ].filter(Boolean);
}
