/* A trace: what would happen to a packet, drawn host by host and table by table. */

import { ask } from "../api.js";
import { field, h, plainTable, progress, s, say, select } from "../dom.js";
import { keep } from "../router.js";

const COLOURS = { delivered: "good", agent: "good", left: "some" }; // who has left the cluster may have been lost
const BOX = { width: 330, gap: 80, head: 44, step: 40 };
const LONGEST = 46; // letters of a line in a box

export const title = () => "Trace a packet";

export async function show(root, { query, signal, fail, well }) {
  const form = h("form", { class: "filters", on: { submit } },
    input("src", "From", query.src, { required: true }), input("dst", "To", query.dst, { required: true }),
    field("Protocol", select("proto", ["icmp", "tcp", "udp", "sctp"], query.proto || "tcp")),
    input("port", "Port", query.port || "80", { inputmode: "numeric" }), input("tenant", "Tenant of the names", query.tenant),
    h("button", { type: "submit" }, "Trace"),
    h("button", { type: "button", on: { click: () => form.reportValidity() && submit(null, "POST") } }, "Trace and send a packet"));
  const result = h("div", {});
  root.append(h("p", {}, "An end is an endpoint's key, address or name, a host, a service, or an outside address. "
    + "A packet that is sent (icmp or tcp) shows what really becomes of it, in the name of an endpoint."), form, result);

  async function submit(event, method = "GET") {
    event?.preventDefault();
    const wanted = Object.fromEntries(new FormData(form));
    keep(wanted);
    result.replaceChildren(progress(method === "GET" ? "Asking the agents" : "Sending a packet, and looking for it on all links").node);
    try {
      const found = named(await ask("trace", { method, query: wanted, signal }));
      well();
      result.replaceChildren(...(found.live ? sent(found.live) : []), ...drawn(found));
      say(found.live?.verdict || found.verdict);
    } catch (error) {
      result.replaceChildren();
      fail(error);
    }
  }

  if (query.src && query.dst) await submit();
}

function input(name, label, value = "", more = {}) {
  return field(label, h("input", { name, value, ...more }));
}

/* Endpoints by their names, where they have one: keys are long. */
function named(trace) {
  const told = Object.entries(trace.names || {});
  const shorter = (text) => told.reduce((all, [key, name]) => all.replaceAll(key, name), text);
  const hops = (some) => some.map((hop) => ({
    ...hop,
    steps: (hop.steps || []).map((one) => ({ ...one, why: shorter(one.why), owner: shorter(one.owner) })),
    exits: (hop.exits || []).map((one) => ({ ...one, name: shorter(one.name) })),
    faults: (hop.faults || []).map(shorter),
  }));
  const live = trace.live && { ...trace.live, verdict: shorter(trace.live.verdict) };
  return { ...trace, live, verdict: shorter(trace.verdict), hops: hops(trace.hops), answer: hops(trace.answer) };
}

/* What became of a packet that was sent, and on which links it was seen. */
function sent({ outcome, verdict, seen, unreachable }) {
  const rows = Object.entries(seen).flatMap(([host, some]) =>
    some.map((one) => [host, one.link, one.direction, one.answer ? "answer" : "packet", one.endpoint]));
  const mute = Object.entries(unreachable).map(([host, why]) => h("li", {}, `Host ${host} did not look: ${why}`));
  return [
    h("h2", {}, "The packet that was sent"),
    h("p", { class: `verdict ${COLOURS[outcome] || "bad"}` }, h("b", {}, outcome), ` ${verdict}`), h("ul", {}, mute),
    h("details", {}, h("summary", {}, "Where it was seen"), plainTable("Where it was seen", ["Host", "Link", "Direction", "What", "Endpoint"], rows)),
    h("h2", {}, "What should become of it"),
  ];
}

function drawn(trace) {
  const rows = [["there", trace.hops], ["back", trace.answer]].flatMap(([way, hops]) =>
    hops.flatMap(rowsOf).map((cells) => [`${cells[0]}, ${way}`, ...cells.slice(1)]));
  const back = trace.answer.length > 0;
  return [
    h("p", { class: `verdict ${COLOURS[trace.outcome] || "bad"}` }, h("b", {}, trace.outcome), ` ${trace.verdict}`),
    trace.hops.length > 0 && way("There", trace.hops, trace.verdict),
    back && h("details", { open: COLOURS[trace.outcome] !== "good" }, h("summary", {}, "The way of the answer"), way("Back", trace.answer, trace.verdict)),
    rows.length > 0 && h("details", {}, h("summary", {}, `Step by step: ${rows.length} tables`),
      plainTable("Step by step", ["Host", "Table", "Decided by", "Of", "Does"], rows)),
  ].filter(Boolean);
}

function way(name, hops, verdict) {
  return h("section", { "aria-label": name }, h("h2", {}, name),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${name}, drawn` }, picture(name, hops, verdict)));
}

/* A column for each host, a box for each table, and the way on at the foot. */
function picture(name, hops, verdict) {
  const tallest = Math.max(...hops.map((hop) => lines(hop).length));
  const width = hops.length * (BOX.width + BOX.gap) + 20;
  const height = BOX.head + tallest * BOX.step + 30;
  const title = `${name}: ${hops.map((hop) => hop.host).join(", ")}. ${verdict}`;
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": title, class: "hops" },
    s("defs", {}, s("marker", { id: `arrow-${name}`, viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto" },
      s("path", { d: "M0 0L10 5L0 10z", class: "arrow" }))),
    hops.map((hop, at) => column(hop, at, hops.length, name)));
}

function column(hop, at, count, name) {
  const x = 10 + at * (BOX.width + BOX.gap);
  const all = lines(hop);
  const bottom = BOX.head + all.length * BOX.step;
  const parts = [
    s("rect", { x, y: 4, width: BOX.width, height: bottom, rx: 6, class: "host" }),
    s("text", { x: x + 12, y: 28, class: "host-name" }, cut(`${hop.host} ${hop.bridge || ""}`)),
    ...all.flatMap((line, row) => {
      const y = BOX.head + row * BOX.step;
      return [
        s("rect", { x: x + 8, y, width: BOX.width - 16, height: BOX.step - 6, rx: 4, class: `step ${line.kind}` }),
        s("text", { x: x + 16, y: y + 14, class: "step-name" }, cut(line.head)),
        s("text", { x: x + 16, y: y + 28 }, cut(line.text)),
      ];
    }),
  ];
  if (at + 1 < count) {
    const y = bottom - BOX.step / 2;
    const end = x + BOX.width + BOX.gap;
    parts.push(s("path", { d: `M${x + BOX.width} ${y}L${end - 2} ${BOX.head / 2 + 4}`, class: "way", "marker-end": `url(#arrow-${name})` }),
      s("text", { x: x + BOX.width + 6, y: 16, class: "small" }, exitOf(hop)));
  }
  return s("g", {}, parts);
}

/* The steps of a host, then what is wrong or where the packet goes. */
function lines(hop) {
  const { exits, faults, steps } = hop;
  const dropped = !exits.length && !faults.length;
  const found = steps.map((one, at) => ({
    head: `${one.table} ${one.tableName}`,
    text: one.why || one.owner,
    kind: dropped && at === steps.length - 1 ? "bad" : one.kind === "RULE" || /rule|polic/i.test(one.why) ? "rule" : "",
  }));
  if (dropped) found.push({ head: "dropped here", text: steps.at(-1)?.why || "", kind: "bad" });
  for (const fault of faults) found.push({ head: "fault", text: fault, kind: "bad" });
  for (const one of faults.length ? [] : exits.slice(0, 4)) found.push({ head: `out to ${one.kind}`, text: one.name, kind: "good" });
  return found;
}

function rowsOf(hop) {
  const steps = hop.steps.map((one) => [hop.host, `${one.table} ${one.tableName}`, one.why, one.owner, one.does]);
  return [...steps, ...hop.faults.map((one) => [hop.host, "", one, "", "ends here"])];
}

function exitOf(hop) {
  return hop.exits.find((one) => ["tunnel", "uplink"].includes(one.kind))?.kind || "";
}

function cut(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
}
