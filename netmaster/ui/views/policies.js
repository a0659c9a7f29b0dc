/* Policies: their rules in the order in which they decide, the groups that have them, and how often each rule applied. */

import { all, ask } from "../api.js";
import { conditionOf } from "../conditions.js";
import { field, filters, h, link, plainTable, progress } from "../dom.js";
import { follow } from "../live.js";
import { keep, to } from "../router.js";
import { rowsTable } from "../table.js";

const KINDS = ["policys", "rules", "endpointGroups"];
const ENDS = ["fromEndpointGroup", "fromNetwork", "fromIpAddress", "toEndpointGroup", "toNetwork", "toIpAddress"];

export const title = () => "Policies";

export async function show(root, view) {
  const { query, signal } = view;
  const search = h("input", { type: "search", value: query.search || "", on: { input: draw } });
  const summary = h("p", { class: "summary" });
  const table = rowsTable("Policies", [
    { head: "Policy", of: (one) => one.policyName },
    { head: "Tenant", of: (one) => one.tenantName },
    { head: "Rules", of: (one) => String(one.rules.length) },
    { head: "Groups", of: (one) => one.groups.join(", ") || "none: it decides nothing" },
    { head: "Who may talk", of: (one) => link(to("reach", { tenant: one.tenantName }), "show"), by: false },
  ], { open: (one) => open(one, signal), empty: ["There is no such policy. Create one: ", h("code", {}, "netctl policy create doors")] });
  let policies = [];
  root.append(filters({}, field("Name contains", search)), summary, table.node);

  function draw() {
    const wanted = search.value.trim();
    keep({ search: wanted });
    const rows = policies.filter((one) => one.key.includes(wanted));
    summary.textContent = `${rows.length} of ${policies.length}`;
    table.set(rows);
  }

  await follow(KINDS, async () => {
    const [found, rules, groups] = await Promise.all(KINDS.map((kind) => all(kind, { signal })));
    policies = found.map((one) => ({
      ...one,
      rules: rules.filter((rule) => isOf(rule, one)).sort((rule, other) => other.priority - rule.priority),
      groups: groups.filter((group) => group.tenantName === one.tenantName && group.policies.includes(one.policyName)).map((group) => group.groupName),
    }));
    draw();
  }, view);
}

function isOf(rule, policy) {
  return rule.tenantName === policy.tenantName && rule.policyName === policy.policyName;
}

function open(policy, signal) {
  const counts = h("div", {}, progress("Asking the hosts how often each rule applied").node);
  ask("rule-hits", { query: { tenant: policy.tenantName, policy: policy.policyName }, signal }).then(
    ({ items, unreachable }) => counts.replaceChildren(ruleTable(policy, new Map(items.map((one) => [one.rule, one.packets]))),
      h("ul", {}, Object.entries(unreachable).map(([host, why]) => h("li", {}, `Host ${host} did not count: ${why}`)))),
    (error) => counts.replaceChildren(ruleTable(policy, new Map()), h("p", {}, error.message)));
  return [
    h("h2", {}, policy.key), h("p", {}, `Groups: ${policy.groups.join(", ") || "none, so it decides nothing"}`),
    conditionOf("policys", policy.key, signal),
    policy.enforcement === "audit" && h("p", {}, "It is under audit and decides nothing: see ",
      link(to("flows", { policy: policy.policyName, verdict: "audited" }), "what it would deny"), ", and enforce it by ", h("code", {}, `netctl policy audit --off ${policy.policyName}`), "."),
    counts,
  ];
}

function ruleTable(policy, packets) {
  if (!policy.rules.length) return h("p", {}, "It has no rule. Add one: ", h("code", {}, `netctl policy rule-add -d in --action=deny -l tcp ${policy.policyName} 1`));
  return plainTable(`Rules of ${policy.key}, the first that fits decides`,
    ["Rule", "Priority", "Direction", "Traffic", "Other end", "Action", "Packets"],
    policy.rules.map((one) => [
      one.ruleId, String(one.priority), one.direction, `${one.protocol || "any"}${one.port ? `/${one.port}` : ""}`,
      ENDS.filter((name) => one[name]).map((name) => `${name} ${one[name]}`).join(", ") || "anybody",
      one.audit ? h("span", { class: "badge some" }, `${one.action}, under audit`) : h("span", { class: `badge ${one.action === "allow" ? "good" : "bad"}` }, one.action),
      packets.has(one.key) ? packets.get(one.key).toLocaleString("en") : "not known",
    ]));
}
