/* The front page: is it well, what fails, what is full, what changed. Each line leads on. */

import { all, ask } from "../api.js";
import { h, link, moment } from "../dom.js";
import { faultsOf, isWell } from "../health.js";
import { follow } from "../live.js";
import { to } from "../router.js";

const MOST = 8; // lines of each kind
const TOTALS = {
  endpoints: ["Endpoints", "endpoints"], networks: ["Networks", "networks"], endpointGroups: ["Groups", "groups"],
  tenants: ["Tenants", "tenants"], serviceLBs: ["Services", "services"], policys: ["Policies", "policies"],
};

export const title = () => "Overview";

export async function show(root, view) {
  const { signal } = view;
  const parts = h("div", { class: "overview" });
  root.append(parts);
  let drawn = ""; // the data on the screen
  await follow(null, async () => {
    const [found, hosts, changes] = await Promise.all([
      ask("overview", { signal }), hostsOf(signal), ask("changes", { query: { limit: MOST }, signal }),
    ]);
    const data = JSON.stringify([found, hosts, changes.items]);
    if (data === drawn) return;
    drawn = data;
    const failing = [...failures(hosts || []), ...found.unserved.map(unserved)];
    const focused = parts.contains(document.activeElement) && document.activeElement.getAttribute("href");
    parts.replaceChildren(verdict(hosts, failing), totals(found.totals, hosts),
      part("What fails", failing, ["Nothing that hosts and netmaster report. ", link(to("selftest"), "Test all hosts and the ways between them")]),
      part("What is full", found.full.map(full), ["No network has 80 % of its addresses used."]),
      part("What changed", changes.items.map(change),
        ["Nothing yet. Create a network: ", h("code", {}, "netctl net create -s 10.1.0.0/16 -g 10.1.0.254 front")],
        link(to("changes"), "All changes")));
    if (focused) parts.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  }, view);
}

/* An operator may not see hosts. */
async function hostsOf(signal) {
  try {
    return await all("hosts", { signal });
  } catch (error) {
    if (error.status === 403) return null;
    throw error;
  }
}

function verdict(hosts, failing) {
  if (hosts === null) return said(!failing.length, failing.length ? "Something wants a look." : "All services are served. Hosts are not for your role.");
  if (!hosts.length) return said(false, "No host has registered yet. Start netplugin on a host, with the store of this cluster.");
  const bad = hosts.filter((one) => !isWell(one)).length;
  if (bad) return said(false, `${bad} of ${hosts.length} hosts are not well.`);
  return said(!failing.length, `All ${hosts.length} hosts are well${failing.length ? ", but something wants a look." : "."}`);
}

function said(good, text) {
  return h("p", { class: `verdict ${good ? "good" : "bad"}`, role: "status" }, h("b", {}, good ? "Well" : "Not well"), ` ${text}`);
}

function totals(counts, hosts) {
  const shown = Object.entries(TOTALS).map(([kind, [name, view]]) => [name, view, counts[kind]]);
  if (hosts !== null) shown.unshift(["Hosts", "hosts", hosts.length]);
  return h("ul", { class: "totals" }, shown.map(([name, page, count]) =>
    h("li", {}, h("a", { href: to(page) }, h("b", {}, count.toLocaleString("en")), ` ${name}`))));
}

function part(name, lines, nothing, more) {
  const further = lines.length - MOST;
  return h("section", { "aria-label": name }, h("h2", {}, name),
    lines.length ? h("ul", { class: "lines" }, lines.slice(0, MOST).map((one) => h("li", {}, one))) : h("p", { class: "summary" }, nothing),
    further > 0 && h("p", { class: "summary" }, `and ${further} more`), more && h("p", {}, more));
}

function failures(hosts) {
  return hosts.filter((one) => !isWell(one)).map((one) =>
    [link(to("hosts", { search: one.label }), `Host ${one.label}`), `: ${faultsOf(one).join("; ")}`]);
}

function unserved(service) {
  return [link(to("services", { search: service.key }), `Service ${service.key}`), " has no provider"];
}

function full(network) {
  const used = Math.floor(((network.size - network.free) / network.size) * 100);
  return [link(to("addresses", { network: network.key }), `Network ${network.key}`), `: ${used} % of ${network.subnet || network.ipv6Subnet} used, ${network.free} free`];
}

function change(one) {
  const [first] = one.objects;
  const others = one.objects.length - 1;
  const words = `${first.action} ${first.kind} ${first.key}${others ? ` and ${others} more` : ""}`;
  return [moment(one.at), " ", link(to("changes"), words), ` by ${one.who || one.address}`];
}
