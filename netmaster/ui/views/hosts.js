/* Hosts: their health, how far they are behind, and what is wrong with them. */

import { all } from "../api.js";
import { facts, field, filters, h, link, moment } from "../dom.js";
import { badge, faultsOf, healthOf, isWell } from "../health.js";
import { follow } from "../live.js";
import { keep, to } from "../router.js";
import { rowsTable } from "../table.js";

export const title = () => "Hosts";

export async function show(root, view) {
  const { query, signal } = view;
  const search = h("input", { type: "search", value: query.search || "", on: { input: draw } });
  const summary = h("p", { class: "summary" });
  const table = rowsTable("Hosts", [
    { head: "Host", of: (one) => one.label },
    { head: "Health", of: (one) => badge(healthOf(one)), by: healthOf },
    { head: "Behind", of: lag, by: distance },
    { head: "Endpoints", of: (one) => link(to("endpoints", { host: one.label }), String(one.endpoints)), by: (one) => one.endpoints },
    { head: "Control address", of: (one) => one.controlIP },
    { head: "Tunnel address", of: tunnels },
    { head: "Version", of: (one) => one.version },
    { head: "What is wrong", of: (one) => (isWell(one) ? "" : faultsOf(one).join("; ")) },
  ], { open, empty: ["No host has registered yet. Start netplugin on a host, with the store of this cluster."] });
  let hosts = [];
  root.append(filters({}, field("Host contains", search)), summary, table.node);

  function draw() {
    const wanted = search.value.trim();
    keep({ search: wanted });
    const good = hosts.filter((one) => healthOf(one) === "in step").length;
    summary.textContent = hosts.length ? `${good} of ${hosts.length} hosts are in step` : "";
    table.set(hosts.filter((one) => one.label.includes(wanted)).map((one) => ({ ...one, key: one.label })));
  }

  await follow(["endpoints", "hosts"], async () => {
    hosts = await all("hosts", { signal });
    draw();
  }, view);
}

const tunnels = (one) => [one.vtepIP, one.vtepIP6].filter(Boolean).join(", ");

function open(host) {
  return [
    h("h2", {}, host.label, " ", badge(healthOf(host))),
    h("ul", {}, faultsOf(host).map((one) => h("li", {}, one))),
    facts([
      ["Not seen since", since(host)], ["Control address", host.controlIP], ["Tunnel address", tunnels(host)],
      ["MACs of the uplinks", host.uplinkMACs.join(", ")], ["Version", host.version],
    ]),
    h("p", {}, link(to("endpoints", { host: host.label }), `${host.endpoints} endpoints`), " ", link(to("selftest"), "Test all hosts")),
  ];
}

function since(host) {
  return host.registered || !host.missingSince ? "" : moment(host.missingSince * 1000);
}

function lag(host) {
  if (!host.registered) return host.missingSince ? h("span", {}, "since ", since(host)) : "";
  return distance(host) ? `${distance(host)} revisions` : host.applied ? "no" : "unknown";
}

/* The greatest distance of all prefixes: `eps/ at 10 of 12, ...`. */
function distance(host) {
  return Math.max(0, ...[...host.behind.matchAll(/at (\d+) of (\d+)/g)].map(([, at, of]) => of - at));
}
