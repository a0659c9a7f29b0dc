/* Flows: who talks to whom and what is dropped, on all hosts, as it happens. */

import { facts, field, filters, h, link, moment, select } from "../dom.js";
import { bytes, endName, flowFeed, lacks, portOf, RANGES, sparkline, traceOf, verdictOf } from "../flowfeed.js";
import { keep, to } from "../router.js";
import { rowsTable } from "../table.js";

const MOST = 2000;
const TYPING = 300; // milliseconds after the last key until netmaster is asked
const TEXTS = {
  from: "From (pod, group, network, address)", to: "To (service too)", toPort: "Port", service: "Service", policy: "Decided by policy", tenant: "Tenant",
};
const CHOICES = {
  verdict: ["Verdict", [["", "any"], "forwarded", "dropped", ["audited", "would be denied (audit)"]]],
  protocol: ["Protocol", [["", "any"], "tcp", "udp", "icmp"]],
  range: ["Time", RANGES],
};
/* What links from elsewhere ask for, and the form has no field for. */
const MORE = ["from", "to"].flatMap((end) => ["Tenant", "Network", "Group", "Namespace", "Pod", "Endpoint"].map((name) => `${end}${name}`));

export const title = () => "Flows";

export async function show(root, view) {
  const { query } = view;
  const inputs = {
    ...Object.fromEntries(Object.keys(TEXTS).map((name) => [name, h("input", { name, type: "search", value: query[name] || "" })])),
    ...Object.fromEntries(Object.entries(CHOICES).map(([name, [, options]]) => [name, select(name, options, query[name] ?? (name === "range" ? "900" : ""))])),
  };
  const labels = { ...TEXTS, ...Object.fromEntries(Object.entries(CHOICES).map(([name, [label]]) => [name, label])) };
  const more = Object.fromEntries(MORE.filter((name) => query[name]).map((name) => [name, query[name]]));
  const held = h("input", { type: "checkbox", name: "hold", on: { change: () => draw() } });
  const form = filters({ input: typed }, Object.entries(inputs).map(([name, input]) => field(labels[name], input)), field("Hold still", held));
  const only = h("p", {}, Object.keys(more).length ? ["Only ", Object.entries(more).map(([name, value]) => `${name} ${value}`).join(", "), ". ", link(to("flows"), "Show all")] : "");
  const summary = h("p", { class: "summary" });
  const notes = h("ul", { class: "notes" });
  const line = h("div", {});
  const table = rowsTable("Flows", [
    { head: "Begun", of: (one) => one.first.slice(11, 23), by: (one) => one.first },
    { head: "From", of: (one) => endName(one.source) },
    { head: "To", of: (one) => endName(one.destination) },
    { head: "Port", of: portOf },
    { head: "Service", of: (one) => one.service },
    { head: "Verdict", of: verdictOf, by: (one) => `${one.verdict} ${one.reason}` },
    { head: "Bytes", of: (one) => bytes(one.bytes + one.answerBytes), by: (one) => one.bytes + one.answerBytes },
    { head: "Last", of: (one) => one.last.slice(11, 23), by: (one) => one.last },
    { head: "Host", of: (one) => one.host },
  ], { open, empty: ["No flow is like that. Clear a filter, or choose a longer time; hosts record flows with ", h("code", {}, "netplugin --flow-records"), "."] });
  root.append(form, only, summary, notes, line, table.node);
  const feed = flowFeed({ ...view, most: MOST, changed: () => held.checked || draw() });
  let waiting = 0;

  function draw() {
    const rows = feed.rows();
    const told = feed.told();
    summary.textContent = `${rows.length.toLocaleString("en")}${told.more || rows.length === MOST ? " newest" : ""} flows, ${rows.filter((one) => one.verdict === "dropped").length.toLocaleString("en")} dropped. Times are UTC.`;
    notes.replaceChildren(...lacks(told).map((text) => h("li", {}, text)));
    line.replaceChildren(...[sparkline(rows)].filter(Boolean));
    table.set(rows);
  }

  function anew() {
    const asked = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value.trim()]));
    keep({ ...asked, ...more });
    const { range, ...wanted } = asked;
    feed.begin({ ...wanted, ...more }, range);
  }

  function typed(event) {
    if (event.target === held) return;
    clearTimeout(waiting);
    waiting = setTimeout(anew, TYPING);
  }

  anew();
}

function open(one) {
  const way = (end) => [end.address, end.port && `port ${end.port}`, end.tenant && `tenant ${end.tenant}`, end.network && `network ${end.network}`, end.group && `group ${end.group}`].filter(Boolean).join(", ");
  const { source, destination } = one;
  return [
    h("h2", {}, `${endName(source)} → ${endName(destination)}`),
    facts([
      ["From", way(source)], ["To", way(destination)],
      ["Asked for", one.service && `${one.service}, ${one.serviceAddress} port ${one.servicePort}`],
      ["Verdict", verdictOf(one)], ["Because", one.because], ["Policy", one.policy], ["Rule", one.rule],
      ["First packet", moment(one.first)], ["Last packet", moment(one.last)], ["Host", link(to("hosts", { search: one.host }), one.host)],
      ["Sent", `${one.packets.toLocaleString("en")} packets, ${one.bytes.toLocaleString("en")} bytes`],
      ["Answered", `${one.answerPackets.toLocaleString("en")} packets, ${one.answerBytes.toLocaleString("en")} bytes`],
    ]),
    h("p", {}, traceOf(one), " ", one.policy && link(to("policies", { search: one.policy }), "Its policy"), " ",
      link(to("what-if"), "What if a rule were different?"), " ",
      link(to("flows", { from: source.address, to: destination.address }), "All flows of the two")),
  ];
}
