/* What Kubernetes' policies and services say of pods: hosts alone know, so they are asked, and only when somebody wants it. */

import { ask } from "./api.js";
import { field, filters, h, plainTable, progress, say } from "./dom.js";

const BADGES = { allow: "good", deny: "bad", pass: "some" };

/** Return {node, query()} of a section that asks about all pods, or about those of `query`: `asked` hears of another question. */
export function kubernetesRules(query, { signal, fail, asked }) {
  const namespace = h("input", { type: "search", value: query.namespace || "" });
  const pod = h("input", { type: "search", value: query.pod || "" });
  const found = h("div");
  const form = filters({ submit }, field("Namespace", namespace), field("Pod", pod),
    h("button", {}, "Ask the hosts"));
  const node = h("section", { "aria-label": "What Kubernetes says" },
    h("h2", {}, "What Kubernetes says"),
    h("p", { class: "summary" }, "NetworkPolicies, administrators' policies and services, from the first that is asked to the last. "
      + "They hold beside the matrix: traffic has to be allowed by both."),
    form, found);
  let question = 0; // the present one
  read().catch(fail);
  return { node, query: wanted };

  function wanted() {
    return { namespace: namespace.value.trim(), pod: pod.value.trim() };
  }

  function submit(event) {
    event.preventDefault();
    asked();
    read().then(() => say(found.textContent), fail);
  }

  async function read() {
    question += 1;
    const mine = question;
    found.replaceChildren(progress("Asking the hosts").node);
    const told = await answered(wanted(), signal);
    if (mine !== question) return;
    found.replaceChildren(...told);
    if (mine === 1 && query.pod) node.scrollIntoView({ block: "start" });
  }
}

async function answered(query, signal) {
  try {
    return tables(await ask("kubernetes-rules", { query, signal }));
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return [h("p", {}, error.status === 403 ? "Your role may not see what Kubernetes says: it knows no tenants." : error.message)];
  }
}

function tables({ items, services, complete, unreachable }) {
  const mute = Object.entries(unreachable).map(([host, why]) => h("li", {}, `Host ${host} did not answer: ${why}`));
  return [
    h("ul", {}, mute),
    complete ? null : h("p", {}, "This is not all: say which namespace or pod."),
    items.length ? plainTable("Rules of Kubernetes' policies", ["Policies", "Pods", "Direction", "Verdict", "Rule", "Packets"], items.map(rule))
      : h("p", {}, "No policy of Kubernetes judges these pods. A NetworkPolicy that selects them would: ", h("code", {}, "kubectl create -f policy.yaml")),
    services.length ? plainTable("Services of Kubernetes", ["Service", "Ports", "Addresses", "Pods"], services.map(service))
      : h("p", {}, "No service of Kubernetes leads to these pods."),
  ].filter((one) => one !== null);
}

function rule(one) {
  return [
    one.policies.join(", "), pods(one), one.direction, h("span", { class: `badge ${BADGES[one.action]}` }, one.action),
    one.rule, one.packets.toLocaleString("en")];
}

function service(one) {
  return [one.service, one.ports.join(", "), one.addresses.join(", ") || "none", pods(one)];
}

function pods({ pods: named, podCount }) {
  const more = podCount - named.length;
  return `${named.join(", ")}${more > 0 ? ` and ${more.toLocaleString("en")} more` : ""}`;
}
