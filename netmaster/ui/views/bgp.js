/* BGP: the router of each host and its neighbour, and what the host says of the session. */

import { all, ask } from "../api.js";
import { h } from "../dom.js";
import { follow } from "../live.js";
import { rowsTable } from "../table.js";

const AT_ONCE = 6; // hosts that are asked side by side
const UP = /^established$/i;

export const title = () => "BGP";

export async function show(root, view) {
  const { signal } = view;
  const summary = h("p", { class: "summary" });
  const again = h("button", { type: "button", on: { click: () => states() } }, "Ask the hosts again");
  const table = rowsTable("BGP", [
    { head: "Host", of: (one) => one.hostname },
    { head: "Router", of: (one) => both(one.routerip, one.routerIpv6) },
    { head: "AS", of: (one) => one.as },
    { head: "Neighbour", of: (one) => both(one.neighbor, one.neighborIpv6) },
    { head: "Neighbour's AS", of: (one) => one["neighbor-as"] },
    { head: "Session", of: session, by: (one) => one.state || "" },
    { head: "Routes", of: (one) => one.routes || "" },
  ], { open: (one) => [h("h2", {}, one.hostname), h("p", {}, session(one)), h("p", {}, one.fault || "")],
    empty: ["No host speaks BGP. Have one speak: ",
      h("code", {}, "netctl bgp create HOST --router-ip=50.1.1.2/24 --as=65002 --neighbor=50.1.1.1 --neighbor-as=65001")] });
  const known = new Map(); // host -> {state, routes, fault}
  let found = [];
  root.append(summary, table.node, h("p", {}, again));

  function draw() {
    const up = found.filter((one) => UP.test(known.get(one.key)?.state)).length;
    summary.textContent = found.length ? `${up} of ${found.length} sessions are established` : "";
    again.hidden = !found.length;
    table.set(found.map((one) => ({ ...one, ...known.get(one.key) })));
  }

  async function states() {
    const left = found.map((one) => one.key);
    known.clear();
    draw();
    await Promise.all(Array.from({ length: AT_ONCE }, async () => {
      for (let key = left.shift(); key !== undefined && !signal.aborted; key = left.shift()) {
        known.set(key, await stateOf(key, signal));
        if (!signal.aborted) draw();
      }
    }));
  }

  await follow(["Bgps"], async () => {
    found = await all("Bgps", { signal });
    await states();
  }, view);
}

const both = (...addresses) => addresses.filter(Boolean).join(", ");

async function stateOf(key, signal) {
  try {
    const told = await ask(`Bgps/${encodeURIComponent(key)}/state`, { signal });
    return { state: told.neighborStatus || "no session", routes: String(told.numRoutes ?? ""), fault: "" };
  } catch (error) {
    return { state: "not known", routes: "", fault: error.message };
  }
}

function session(one) {
  if (!one.state) return "asking…";
  return h("span", { class: `badge ${UP.test(one.state) ? "good" : "bad"}` }, `${one.state}${one.fault && `: ${one.fault}`}`);
}
