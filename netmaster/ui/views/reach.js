/* Who may talk to whom: groups against groups, and the rules that decide about a pair. */

import { all, ask } from "../api.js";
import { field, filters, h, link, plainTable, say, select } from "../dom.js";
import { kubernetesRules } from "../kubernetes.js";
import { follow } from "../live.js";
import { keep, to } from "../router.js";

const MOST = 60; // groups on each side that are drawn
const KINDS = ["tenants", "endpointGroups", "policys", "rules", "networks", "serviceLBs"];
const SIGNS = { allowed: "✓", denied: "✕", some: "◐" };
const MOVES = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
const WORDS = { allowed: "everything is allowed", denied: "everything is denied", some: "some traffic is allowed" };

export const title = () => "Who may talk to whom";

export async function show(root, view) {
  const { query, signal, fail, well } = view;
  const tenants = (await all("tenants", { signal })).map((one) => one.key);
  const choice = select("tenant", tenants, query.tenant || "default");
  const contains = h("input", { type: "search", value: query.search || "" });
  const note = h("p", { class: "summary" });
  const table = h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Matrix" });
  const detail = h("section", { "aria-label": "Deciding rules", tabindex: "-1", class: "detail" });
  const services = h("section", { "aria-label": "Services" });
  const kubernetes = kubernetesRules(query, { signal, fail, asked: kept });
  root.append(filters({}, field("Tenant", choice), field("Group name contains", contains)),
  h("p", { class: "legend" }, Object.keys(SIGNS).map((one) => h("span", { class: `key ${one}` }, `${SIGNS[one]} ${WORDS[one]}`))),
  note, table, detail, services, kubernetes.node);
  let told = null;
  let chosen = null; // the pair whose rules are shown
  let drawn = null; // the groups that the table has

  function kept() {
    keep({ tenant: choice.value, search: contains.value, ...kubernetes.query() });
  }

  async function read() {
    if (!choice.value) return;
    kept();
    const [found, opened] = await Promise.all([
      ask("reach", { query: { tenant: choice.value }, signal }), all("serviceLBs", { query: { tenantName: choice.value }, signal }),
    ]);
    told = found;
    draw();
    services.replaceChildren(...ofServices(opened));
  }

  function draw() {
    if (told === null) return;
    const fitting = told.groups.filter((one) => one.name.includes(contains.value.trim()));
    const groups = fitting.slice(0, MOST);
    const pairs = new Map(told.pairs.map((one) => [pairKey(one.source, one.destination), one]));
    const hidden = fitting.length - groups.length;
    note.textContent = `Rows open connections to columns. ${fitting.length} groups`
      + `${hidden ? `; ${hidden} more are not drawn: say which by name` : ""}`
      + `${told.complete ? "" : "; there is too much to tell whole: this is not complete"}.`;
    table.hidden = !groups.length;
    if (!fitting.length) note.textContent += " Nothing is decided by groups here; create one: netctl group create NETWORK NAME";
    const names = groups.map((one) => one.name);
    if (drawn !== names.join("\n")) {
      drawn = names.join("\n");
      table.replaceChildren(matrix(names, choose));
    }
    mark(table, names, pairs);
    if (chosen) explain(pairs);
  }

  function choose(source, destination) {
    chosen = [source, destination];
    explain(new Map(told.pairs.map((one) => [pairKey(one.source, one.destination), one])));
    detail.scrollIntoView({ block: "nearest" });
  }

  function explain(pairs) {
    const [source, destination] = chosen;
    const pair = pairs.get(pairKey(source, destination));
    const head = h("h2", {}, `${named(source)} to ${named(destination)}`);
    if (!pair) {
      detail.replaceChildren(head, h("p", {}, "No rule is about this pair: everything is allowed."));
    } else {
      const rows = pair.traffic.map((one) => [
        one.traffic === "any" ? "all other" : one.traffic,
        h("span", { class: `badge ${one.verdict === "allowed" ? "good" : one.verdict === "denied" ? "bad" : "some"}` }, one.verdict),
        one.by.length ? one.by.join(", ") : "no rule applies",
        one.answers ? "the rule denies the answers" : one.verdict === "partly" ? "depends on the addresses" : "",
      ]);
      detail.replaceChildren(head, plainTable(`Rules for ${named(source)} to ${named(destination)}`, ["Traffic", "Verdict", "Deciding rule", "Why"], rows));
    }
    say(head.textContent);
  }

  choice.addEventListener("change", () => {
    chosen = null;
    detail.replaceChildren();
    read().then(well, fail);
  });
  contains.addEventListener("input", draw);
  await follow(KINDS, read, view);
}

/* The ways that services open: by their addresses, whatever the network of the client is. */
function ofServices(services) {
  if (!services.length) return [];
  const rows = services.map((one) => [
    link(to("services", { search: one.key }), one.serviceName), one.ports.join(", "), one.selectors.join(", "), one.networkName]);
  return [
    h("h2", {}, "What services open"),
    h("p", { class: "summary" }, "A service's address leads to the endpoints with its labels; the policies of their groups hold there too."),
    plainTable("Services", ["Service", "Ports (service:endpoint:protocol)", "Endpoints with", "Network"], rows),
  ];
}

/* One cell can be reached by Tab; arrow keys move among the others. */
function matrix(names, choose) {
  const heads = names.map((one) => h("th", { scope: "col" }, h("span", {}, named(one))));
  const rows = names.map((source, row) => h("tr", {}, h("th", { scope: "row" }, named(source)),
    names.map((_, column) => h("td", {}, h("button", {
      type: "button", "data-at": `${row},${column}`, tabindex: row || column ? "-1" : "0",
    })))));
  const click = ({ target }) => {
    const [row, column] = (target.dataset.at || "").split(",");
    if (column) choose(names[row], names[column]);
  };
  return h("table", { class: "matrix", on: { keydown: move, click } },
    h("caption", { class: "unseen" }, "Who may talk to whom: rows open connections to columns"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "from \\ to"), heads)), h("tbody", {}, rows));
}

/* Shows the present verdicts; cells that stay as they are are not touched. */
function mark(table, names, pairs) {
  for (const cell of table.querySelectorAll("[data-at]")) {
    const [source, destination] = cell.dataset.at.split(",").map((at) => names[at]);
    const state = stateOf(pairs.get(pairKey(source, destination)));
    if (cell.className === state) continue;
    cell.className = state;
    cell.textContent = SIGNS[state];
    cell.setAttribute("aria-label", `${named(source)} to ${named(destination)}: ${WORDS[state]}`);
  }
}

function move(event) {
  const by = MOVES[event.key];
  const at = event.target.dataset.at;
  if (!by || !at) return;
  const [row, column] = at.split(",").map(Number);
  const next = event.currentTarget.querySelector(`[data-at="${row + by[0]},${column + by[1]}"]`);
  event.preventDefault();
  if (!next) return;
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

function stateOf(pair) {
  if (!pair) return "allowed";
  const verdicts = new Set(pair.traffic.map((one) => one.verdict));
  return verdicts.size === 1 && !verdicts.has("partly") ? [...verdicts][0] : "some";
}

function pairKey(source, destination) {
  return `${source}\n${destination}`;
}

function named(group) {
  return group || "(no group)";
}
