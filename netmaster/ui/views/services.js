/* Services: their ports and labels, whether anybody serves them, and who. */

import { all, ask } from "../api.js";
import { facts, field, filters, h, link, plainTable, progress } from "../dom.js";
import { follow } from "../live.js";
import { keep, to } from "../router.js";
import { rowsTable } from "../table.js";

export const title = () => "Services";

export async function show(root, view) {
  const { query, signal } = view;
  const search = h("input", { type: "search", value: query.search || "", on: { input: draw } });
  const summary = h("p", { class: "summary" });
  const table = rowsTable("Services", [
    { head: "Service", of: (one) => one.serviceName },
    { head: "Tenant", of: (one) => one.tenantName },
    { head: "Network", of: (one) => one.networkName },
    { head: "Address", of: (one) => one.ipAddress || "granted: open the row" },
    { head: "Ports", of: (one) => one.ports.join(", ") },
    { head: "Endpoints with", of: (one) => one.selectors.join(", ") },
    { head: "Served", of: (one) => h("span", { class: `badge ${one.served ? "good" : "bad"}` }, one.served ? "yes" : "by nobody"), by: (one) => String(one.served) },
  ], { open: (one) => open(one, signal), empty: ["There is no such service. Create one: ",
    h("code", {}, "netctl service create -t default -s 10.1.0.0/16 shop"), ". Services of Kubernetes are known to the hosts alone: ",
    link(to("reach"), "Who may talk"), " tells which lead to which pods."] });
  let services = [];
  root.append(filters({}, field("Name contains", search)), summary, table.node);

  function draw() {
    const wanted = search.value.trim();
    keep({ search: wanted });
    const rows = services.filter((one) => one.key.includes(wanted));
    summary.textContent = `${rows.length} of ${services.length}`;
    table.set(rows);
  }

  await follow(["serviceLBs", "networks", "endpoints"], async () => {
    const [found, { unserved }] = await Promise.all([all("serviceLBs", { signal }), ask("overview", { signal })]);
    const idle = new Set(unserved.map((one) => one.key));
    services = found.map((one) => ({ ...one, served: !idle.has(one.key) }));
    draw();
  }, view);
}

function open(service, signal) {
  const state = h("div", {}, progress("Asking who serves it").node);
  ask(`serviceLBs/${encodeURIComponent(service.key)}/state`, { signal }).then(
    (told) => state.replaceChildren(...providers(service, told)), (error) => state.replaceChildren(h("p", {}, error.message)));
  return [h("h2", {}, service.key), state];
}

function providers(service, { serviceVip, providers: serving }) {
  const rows = serving.map((one) => [one.containerName || one.endpointID, one.ipAddress.filter(Boolean).join(", "), one.homingHost]);
  return [
    facts([["Address", serviceVip], ["Ports", service.ports.join(", ")], ["Endpoints with", service.selectors.join(", ")]]),
    rows.length ? plainTable("Who serves it", ["Endpoint", "Addresses", "Host"], rows)
      : h("p", {}, "Nobody serves it. Start an endpoint with all of these labels on its tenant's networks, or look at ",
        link(to("endpoints", { tenant: service.tenantName, label: service.selectors[0] || "" }), "the endpoints with the first one"), "."),
    h("p", {}, link(to("trace", { dst: service.serviceName, tenant: service.tenantName }), "Trace to it")),
  ];
}
