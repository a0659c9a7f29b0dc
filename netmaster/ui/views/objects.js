/* Tenants, networks and groups: lists that changes are applied to as they come. */

import { all, ask } from "../api.js";
import { conditionOf } from "../conditions.js";
import { field, filters, h, link, plainTable, progress, say } from "../dom.js";
import { onChanges } from "../live.js";
import { keep, to } from "../router.js";
import { rowsTable } from "../table.js";

const QUOTAS = {
  networkQuota: "networks",
  groupQuota: "groups",
  policyQuota: "policies",
  ruleQuota: "rules",
  endpointQuota: "endpoints",
  usedAddressQuota: "addresses in use",
};

const LISTS = {
  tenants: {
    title: "Tenants",
    kind: "tenants",
    empty: "There is no tenant yet. Create one: netctl tenant create blue",
    columns: [
      { head: "Tenant", of: (one) => one.tenantName },
      { head: "Default network", of: (one) => one.defaultNetwork },
      { head: "May have", of: quotas },
      { head: "Networks", of: (one) => shown("networks", { search: `${one.key}:` }), by: false },
      { head: "Groups", of: (one) => shown("groups", { search: `${one.key}:` }), by: false },
      { head: "Who may talk", of: (one) => shown("reach", { tenant: one.key }), by: false },
    ],
    open: openTenant,
  },
  networks: {
    title: "Networks",
    kind: "networks",
    empty: "There is no such network. Create one: netctl net create -s 10.1.0.0/16 -g 10.1.0.254 front",
    columns: [
      { head: "Network", of: (one) => one.networkName },
      { head: "Tenant", of: (one) => one.tenantName },
      { head: "Encapsulation", of: (one) => `${one.encap} ${one.pktTag || ""}` },
      { head: "Subnet", of: (one) => one.subnet },
      { head: "Gateway", of: (one) => one.gateway },
      { head: "IPv6 subnet", of: (one) => one.ipv6Subnet },
      { head: "Excluded", of: (one) => one.exclude.join(", ") },
      { head: "Kind", of: (one) => one.nwType },
      { head: "Endpoints", of: (one) => shown("endpoints", { tenant: one.tenantName, network: one.networkName }), by: false },
    ],
    open: openApplied,
  },
  groups: {
    title: "Groups",
    kind: "endpointGroups",
    empty: "There is no such group. Create one: netctl group create front web",
    columns: [
      { head: "Group", of: (one) => one.groupName },
      { head: "Tenant", of: (one) => one.tenantName },
      { head: "Network", of: (one) => one.networkName },
      { head: "Policies", of: (one) => one.policies.join(", ") },
      { head: "Profile", of: (one) => one.netProfile },
      { head: "Excluded", of: (one) => one.exclude.join(", ") },
      { head: "Endpoints", of: (one) => shown("endpoints", { tenant: one.tenantName, group: one.groupName }), by: false },
    ],
    open: openApplied,
  },
};

function quotas(tenant) {
  const named = Object.entries(QUOTAS).filter(([name]) => tenant[name]);
  return named.map(([name, what]) => `${tenant[name]} ${what}`).join(", ");
}

function openTenant(tenant, signal) {
  const state = h("div", {}, progress("Asking what it has").node);
  ask(`tenants/${encodeURIComponent(tenant.key)}/state`, { signal }).then(
    (told) => state.replaceChildren(used(told)), (error) => state.replaceChildren(h("p", {}, error.message)));
  return [h("h2", {}, tenant.key), state];
}

function openApplied(one, signal, kind) {
  return [h("h2", {}, one.key), conditionOf(kind, one.key, signal)];
}

/* What a tenant has of what it may have; of what it has no quota of, the totals that its state tells. */
function used({ quotas: limits = {}, totalNetworks, totalEPGs, totalPolicies, totalEndpoints }) {
  const has = { networks: totalNetworks, groups: totalEPGs, policies: totalPolicies, endpoints: totalEndpoints };
  const rows = Object.values(QUOTAS).filter((what) => limits[what] || has[what] !== undefined).map((what) => [
    what, String(limits[what]?.used ?? has[what]), limits[what] ? fullness(limits[what]) : "any number",
  ]);
  return plainTable("What it has", ["Of", "Has", "May have"], rows);
}

function fullness({ used: has, allowed }) {
  return has < allowed ? String(allowed) : h("span", { class: "badge bad" }, `${allowed}: no more`);
}

export const title = (name) => LISTS[name].title;

export async function show(root, { name, query, signal, fail, well }) {
  const list = LISTS[name];
  const search = h("input", { type: "search", value: query.search || "", on: { input: draw } });
  const summary = h("p", { class: "summary" });
  const table = rowsTable(list.title, list.columns, {
    empty: [list.empty], open: (one) => list.open(one, signal, list.kind),
  });
  let objects = null;
  root.append(filters({}, field("Name contains", search)), summary, table.node);

  async function read() {
    try {
      objects = new Map((await all(list.kind, { signal })).map((one) => [one.key, one]));
      draw();
      well();
    } catch (error) {
      fail(error);
    }
  }

  function draw() {
    const wanted = search.value.trim();
    keep({ search: wanted });
    if (objects === null) return;
    const rows = [...objects.values()].filter((one) => one.key.includes(wanted));
    rows.sort((one, other) => (one.key < other.key ? -1 : 1));
    summary.textContent = `${rows.length} of ${objects.size}`;
    table.set(rows);
  }

  function apply(changes) {
    if (changes === null || objects === null) {
      read();
      return;
    }
    for (const one of changes) {
      if (one.type === "delete") objects.delete(one.key);
      else objects.set(one.key, one.object);
    }
    say(`${changes[0].key} ${changes[0].type === "delete" ? "deleted" : "changed"}`);
    draw();
  }

  onChanges([list.kind], apply, signal);
  await read();
}

/* Links are not sorted by. */
function shown(view, query) {
  return link(to(view, query), "show");
}
