/* The map of flows: groups, namespaces or pods as nodes, what they send each other as edges, red where some is dropped. */

import { field, filters, h, link, plainTable, s, select } from "../dom.js";
import { bytes, endName, flowFeed, lacks, RANGES } from "../flowfeed.js";
import { keep, to } from "../router.js";

const MOST = 5000;
const NODES = 24; // as many as can be told apart; those with less traffic are one
const LINES = 50;
const SIZE = 640;
const RADIUS = 220;
const KINDS = [["group", "Groups"], ["namespace", "Namespaces"], ["pod", "Pods and containers"], ["network", "Networks"]];
const OUTSIDE = "outside";
const OTHERS = "all others";

export const title = () => "Map";

export async function show(root, view) {
  const { query } = view;
  const inputs = {
    by: select("by", KINDS, query.by || "group"),
    tenant: h("input", { name: "tenant", type: "search", value: query.tenant || "" }),
    range: select("range", RANGES, query.range ?? "900"),
  };
  const labels = { by: "Nodes", tenant: "Tenant", range: "Time" };
  const summary = h("p", { class: "summary" });
  const notes = h("ul", { class: "notes" });
  const drawn = h("div", { class: "map" });
  const lines = h("div", {});
  root.append(filters({ input: anew }, Object.entries(inputs).map(([name, input]) => field(labels[name], input))), summary, notes, drawn, lines);
  const feed = flowFeed({ ...view, most: MOST, changed: draw });

  function draw() {
    const rows = feed.rows();
    const told = feed.told();
    const { nodes, edges } = summed(rows, inputs.by.value);
    summary.textContent = `${rows.length.toLocaleString("en")}${told.more || rows.length === MOST ? " newest" : ""} flows between ${nodes.length} nodes. A line is as wide as its bytes, with a red one on it where some was dropped.`;
    notes.replaceChildren(...lacks(told).map((text) => h("li", {}, text)));
    if (drawn.contains(document.activeElement) || lines.contains(document.activeElement)) return; // who is there is not moved
    drawn.replaceChildren(...(edges.length ? [picture(nodes, edges)] : [h("p", { class: "empty" }, "No flow is like that. Choose a longer time; hosts record flows with ", h("code", {}, "netplugin --flow-records"), ".")]));
    lines.replaceChildren(...(edges.length ? [table(edges)] : []));
  }

  function anew() {
    const { by, tenant, range } = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value.trim()]));
    keep({ by, tenant, range });
    feed.begin({ tenant }, range);
  }

  anew();
}

/* What is told of an end: its name, and what the list of flows is asked for it. */
function nodeOf(end, kind) {
  if (!end.tenant) return { name: OUTSIDE, asked: {} };
  const asked = { Tenant: end.tenant };
  if (kind === "group" && end.group) return { name: `${end.tenant}/${end.group}`, asked: { ...asked, Group: end.group } };
  if (kind === "namespace" && end.namespace) return { name: end.namespace, asked: { ...asked, Namespace: end.namespace } };
  if (kind === "pod") return { name: endName(end), asked: { ...asked, Endpoint: end.endpoint } };
  return { name: `network ${end.tenant}/${end.network}`, asked: { ...asked, Network: end.network } };
}

function summed(rows, kind) {
  const weight = new Map();
  const pairs = new Map();
  for (const one of rows) {
    if (one.verdict === "audited") continue; // its connection has a record of its own
    const ends = [nodeOf(one.source, kind), nodeOf(one.destination, kind)];
    const size = one.bytes + one.answerBytes;
    for (const { name } of ends) weight.set(name, (weight.get(name) || 0) + size + 1);
    const key = `${ends[0].name}\n${ends[1].name}`;
    const edge = pairs.get(key) || { ends, flows: 0, bytes: 0, dropped: 0 };
    edge.flows += 1;
    edge.bytes += size;
    edge.dropped += one.verdict === "dropped" ? 1 : 0;
    pairs.set(key, edge);
  }
  const named = [...weight].sort(([, one], [, other]) => other - one).map(([name]) => name);
  const kept = new Set(named.slice(0, NODES));
  const edges = new Map();
  for (const edge of pairs.values()) {
    const ends = edge.ends.map((end) => (kept.has(end.name) ? end : { name: OTHERS, asked: {} }));
    const key = `${ends[0].name}\n${ends[1].name}`;
    const sum = edges.get(key) || { ends, flows: 0, bytes: 0, dropped: 0 };
    edges.set(key, { ends, flows: sum.flows + edge.flows, bytes: sum.bytes + edge.bytes, dropped: sum.dropped + edge.dropped });
  }
  // in the order of their names, so that a node stays where it is while the traffic changes
  const nodes = [...kept, ...(named.length > NODES ? [OTHERS] : [])].sort();
  return { nodes, edges: [...edges.values()].sort((one, other) => other.bytes - one.bytes || other.flows - one.flows) };
}

function flowsOf({ ends: [source, destination], dropped }) {
  const asked = (end, prefix) => Object.fromEntries(Object.entries(end.asked).map(([name, value]) => [`${prefix}${name}`, value]));
  return to("flows", { ...asked(source, "from"), ...asked(destination, "to"), verdict: dropped ? "dropped" : "" });
}

function told({ ends: [source, destination], flows, bytes: size, dropped }) {
  return `${source.name} to ${destination.name}: ${flows} flows, ${bytes(size)}${dropped ? `, ${dropped} dropped` : ""}`;
}

function picture(nodes, edges) {
  const place = new Map(nodes.map((name, at) => {
    const angle = (2 * Math.PI * at) / nodes.length - Math.PI / 2;
    return [name, { x: SIZE / 2 + RADIUS * Math.cos(angle), y: SIZE / 2 + RADIUS * Math.sin(angle), left: Math.cos(angle) < -0.01 }];
  }));
  const most = Math.max(1, ...edges.map((one) => one.bytes));
  return s("svg", { class: "flowmap", viewBox: `-160 0 ${SIZE + 320} ${SIZE}`, role: "group", "aria-label": "Map of flows" },
    s("defs", {}, ["edge", "lost"].map((name) => s("marker", { id: `arrow-${name}`, class: name, viewBox: "0 0 10 10", refX: 18, refY: 5, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" },
      s("path", { d: "M 0 0 L 10 5 L 0 10 z" })))),
    // the widest first, so that what was dropped and what is thin lie above it
    [...edges].sort((one, other) => Boolean(one.dropped) - Boolean(other.dropped)).map((edge) => {
      const [from, until] = edge.ends.map((end) => place.get(end.name));
      const width = 1 + 9 * Math.sqrt(edge.bytes / most);
      return s("a", { href: flowsOf(edge), "aria-label": told(edge) },
        s("path", { class: "edge", d: curve(from, until), "stroke-width": width.toFixed(1), "marker-end": "url(#arrow-edge)" }),
        edge.dropped ? s("path", { class: "edge lost", d: curve(from, until), "marker-end": "url(#arrow-lost)" }) : null, s("title", {}, told(edge)));
    }),
    nodes.map((name) => {
      const { x, y, left } = place.get(name);
      return s("g", {}, s("circle", { class: "node", cx: x, cy: y, r: 7 }),
        s("text", { x: x + (left ? -12 : 12), y: y + 4, "text-anchor": left ? "end" : "start" }, short(name)), s("title", {}, name));
    }));
}

/* A line that bends to the right of its direction, so that the two ways between two nodes differ; a loop for a node itself. */
function curve(from, until) {
  if (from === until) return `M ${from.x} ${from.y} c -40 -50, 40 -50, 0 0`;
  const middle = { x: (from.x + until.x) / 2 + (from.y - until.y) / 8, y: (from.y + until.y) / 2 + (until.x - from.x) / 8 };
  return `M ${from.x} ${from.y} Q ${middle.x} ${middle.y} ${until.x} ${until.y}`;
}

function short(name) {
  return name.length > 28 ? `${name.slice(0, 27)}…` : name;
}

function table(edges) {
  const rows = edges.slice(0, LINES).map((edge) => [
    edge.ends[0].name, edge.ends[1].name, edge.flows.toLocaleString("en"), bytes(edge.bytes),
    h("span", { class: `badge ${edge.dropped ? "bad" : "good"}` }, edge.dropped.toLocaleString("en")),
    h("a", { href: flowsOf(edge), "aria-label": `Show flows from ${edge.ends[0].name} to ${edge.ends[1].name}` }, "show"),
  ]);
  const rest = edges.length > LINES ? `, the first ${LINES} of ${edges.length}` : "";
  return h("div", {}, plainTable(`Who sends to whom${rest}`, ["From", "To", "Flows", "Bytes", "Dropped", "Flows"], rows),
    h("p", {}, "What may be sent is in ", link(to("reach"), "Who may talk"), "."));
}
