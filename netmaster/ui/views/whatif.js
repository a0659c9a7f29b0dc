/* What if: a change of a rule or of a group's policies is tried, and what it does is shown beside what is. */

import { all, ask } from "../api.js";
import { field, h, plainTable, say, select } from "../dom.js";

const ACTIONS = { add: "Add a rule", remove: "Delete a rule", policies: "Change a group's policies" };
const ENDS = ["fromEndpointGroup", "fromNetwork", "fromIpAddress", "toEndpointGroup", "toNetwork", "toIpAddress"];

export const title = () => "What if";

export async function show(root, { me, signal, fail, well }) {
  if (!["admin", "operator"].includes(me.role)) {
    root.append(h("p", {}, `Your role, ${me.role}, may read but not change: it may not try changes either.`));
    return;
  }
  const known = {};
  for (const kind of ["policys", "rules", "endpointGroups"]) known[kind] = await all(kind, { signal });
  if (!known.policys.length) {
    root.append(h("p", { class: "empty" }, "There is no policy yet, so nothing to change. Create one: ", h("code", {}, "netctl policy create doors")));
    return;
  }
  const action = select("action", Object.entries(ACTIONS));
  const fields = h("div", { class: "filters" });
  const result = h("section", { "aria-label": "What would change", "aria-live": "polite" });
  const form = h("form", { on: { submit } }, h("div", { class: "filters" }, field("Change", action)), fields,
    h("button", { type: "submit" }, "Try it"));
  root.append(form, result);

  function choose() {
    fields.replaceChildren(...fieldsOf(action.value, known));
    result.replaceChildren();
  }

  async function submit(event) {
    event.preventDefault();
    const change = changeOf(action.value, new FormData(form), known);
    try {
      const told = await ask(change.path, { ...change, query: { dryRun: "true" }, signal });
      well();
      result.replaceChildren(...outcome(told.effects), make(change));
      say(`${told.effects.reach.changes.length} changes`);
    } catch (error) {
      result.replaceChildren();
      fail(error);
    }
  }

  function make(change) {
    const button = h("button", { type: "button", class: "danger", on: { click } }, "Make this change");
    async function click() {
      button.disabled = true;
      try {
        await ask(change.path, { ...change, headers: { "Idempotency-Key": crypto.randomUUID?.() || String(Math.random()) } });
        for (const kind of Object.keys(known)) known[kind] = await all(kind, { signal });
        choose();
        result.replaceChildren(h("p", { role: "status" }, "The change is made."));
      } catch (error) {
        fail(error);
      }
    }
    return h("p", {}, button);
  }

  action.addEventListener("change", choose);
  choose();
}

function fieldsOf(action, known) {
  if (action === "remove") return [field("Rule", select("rule", known.rules.map((one) => [one.key, ruleText(one)])))];
  if (action === "policies") {
    const policies = h("select", { name: "policies", multiple: true, size: 5 }, known.policys.map((one) => h("option", { value: one.key }, one.key)));
    const group = select("group", known.endpointGroups.map((one) => one.key));
    const mark = () => {
      const has = known.endpointGroups.find((one) => one.key === group.value);
      for (const one of policies.options) {
        const [tenant, name] = one.value.split(":");
        one.hidden = tenant !== has?.tenantName;
        one.selected = !one.hidden && has.policies.includes(name);
      }
    };
    group.addEventListener("change", mark);
    mark();
    return [field("Group", group), field("Policies it shall have", policies)];
  }
  return [
    field("Policy", select("policy", known.policys.map((one) => one.key))),
    text("ruleId", "Rule id", { required: true }),
    field("Direction", select("direction", [["in", "in: to the policy's groups"], ["out", "out: from them"]])),
    field("Action", select("verdict", ["allow", "deny"])),
    text("priority", "Priority, 1 to 100", { type: "number", min: 1, max: 100, value: 1 }),
    field("Protocol", select("protocol", [["", "any"], "tcp", "udp", "icmp", "igmp"])),
    text("port", "Port", { type: "number", min: 0, max: 65535 }),
    field("Other end", select("end", [["", "anybody"], ...ENDS])),
    text("value", "Its name or address"),
  ];
}

function text(name, label, more = {}) {
  return field(label, h("input", { name, ...more }));
}

/* The request that makes a change. */
function changeOf(action, data, known) {
  if (action === "remove") return { method: "DELETE", path: `rules/${encodeURIComponent(data.get("rule"))}` };
  if (action === "policies") {
    const policies = data.getAll("policies").map((key) => key.split(":")[1]);
    return { method: "PATCH", path: `endpointGroups/${encodeURIComponent(data.get("group"))}`, body: { policies } };
  }
  const policy = known.policys.find((one) => one.key === data.get("policy"));
  const body = {
    tenantName: policy?.tenantName || "", policyName: policy?.policyName || "", ruleId: data.get("ruleId"),
    direction: data.get("direction"), action: data.get("verdict"), priority: Number(data.get("priority")),
  };
  if (data.get("protocol")) body.protocol = data.get("protocol");
  if (data.get("port")) body.port = Number(data.get("port"));
  if (data.get("end")) body[data.get("end")] = data.get("value").trim();
  return { method: "POST", path: "rules", body };
}

function outcome(effects) {
  const { changes, complete } = effects.reach;
  const parts = [h("h2", {}, "Who may talk to whom, now and then")];
  if (!changes.length) parts.push(h("p", {}, "Nothing changes between the endpoints that there are."));
  else {
    parts.push(h("div", { class: "beside" }, side("Now", changes, false), side("Then", changes, true)));
  }
  if (!complete || !effects.complete) parts.push(h("p", {}, "There is more than is told here."));
  parts.push(h("p", {}, `${effects.writes.length} keys of the store would be written.`));
  return parts;
}

/* One side: the same rows in the same order, with the verdict and the rule of that time. */
function side(name, changes, then) {
  const rows = changes.map((one) => {
    const allowed = (one.becomes === "allowed") === then;
    const rules = then ? one.by : one.before;
    return [
      `${one.source || "(no group)"} → ${one.destination || "(no group)"}`,
      one.traffic === "any" ? "all other" : one.traffic,
      h("span", { class: `badge ${allowed ? "good" : "bad"}` }, allowed ? "allowed" : "denied"),
      rules.length ? rules.join(", ") : "no rule",
      `${one.sources} → ${one.destinations}`,
    ];
  });
  return plainTable(name, ["From → to", "Traffic", "Verdict", "Rule", "Endpoints"], rows);
}

function ruleText(rule) {
  const end = ENDS.filter((name) => rule[name]).map((name) => `${name} ${rule[name]}`).join(" ");
  return `${rule.key}: ${rule.action} ${rule.direction} ${rule.protocol || "any"} ${rule.port || ""} ${end}`;
}
