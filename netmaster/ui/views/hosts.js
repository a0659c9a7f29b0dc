/* Hosts: their health, how far they are behind, and what is wrong with them. No events tell of hosts. */

import { all } from "../api.js";
import { h } from "../dom.js";
import { poll } from "../live.js";
import { to } from "../router.js";
import { rowsTable } from "../table.js";

const PAUSE = 700; // milliseconds between two looks

export const title = () => "Hosts";

export async function show(root, view) {
  const summary = h("p", { class: "summary" });
  const table = rowsTable("Hosts", [
    { head: "Host", of: (one) => one.label },
    { head: "Health", of: (one) => badge(health(one)) },
    { head: "Lag", of: lag },
    { head: "Endpoints", of: (one) => h("a", { href: to("endpoints", { host: one.label }) }, String(one.endpoints)) },
    { head: "Control address", of: (one) => one.controlIP },
    { head: "Tunnel address", of: (one) => one.vtepIP },
    { head: "Version", of: (one) => one.version },
    { head: "What is wrong", of: (one) => one.errors.join("; ") || one.behind },
  ]);
  root.append(summary, table.node);
  await poll(async () => {
    const hosts = await all("hosts", { signal: view.signal });
    const good = hosts.filter((one) => health(one) === "in step").length;
    summary.textContent = hosts.length ? `${good} of ${hosts.length} hosts are in step` : "No host has registered yet.";
    table.set(hosts.map((one) => ({ ...one, key: one.label })));
  }, PAUSE, view);
}

function health(host) {
  if (!host.registered) return "no agent";
  if (host.errors.length) return "faulty";
  if (!host.applied) return "behind";
  return host.drained ? "drained" : "in step";
}

function badge(text) {
  const kinds = { "in step": "good", drained: "some", behind: "some" };
  return h("span", { class: `badge ${kinds[text] || "bad"}` }, text);
}

/* The greatest distance of all prefixes: `eps/ at 10 of 12, ...`. */
function lag(host) {
  if (!host.registered) {
    return host.missingSince ? `since ${new Date(host.missingSince * 1000).toLocaleTimeString()}` : "";
  }
  const distances = [...host.behind.matchAll(/at (\d+) of (\d+)/g)].map(([, at, of]) => of - at);
  if (distances.length) return `${Math.max(...distances)} revisions`;
  return host.applied ? "none" : "unknown";
}
