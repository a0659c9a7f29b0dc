/* How full networks are, as a heat map: a tile for each network, and for one of them its blocks of addresses. */

import { all } from "../api.js";
import { h } from "../dom.js";
import { follow } from "../live.js";
import { to } from "../router.js";

const BLOCKS = 256;
const STEPS = 6;

export const title = () => "Address use";

export async function show(root, view) {
  const { query, signal, fail } = view;
  const map = h("ul", { class: "heat" });
  const detail = h("section", { "aria-label": "Blocks of a network", "aria-live": "polite" });
  const tiles = new Map(); // key -> {text, node}
  const none = h("p", { class: "empty" }, "There is no network yet. Create one: ",
    h("code", {}, "netctl net create -s 10.1.0.0/16 -g 10.1.0.254 front"));
  root.append(legend(), map, none, detail);
  let chosen = query.network || ""; // the key of the network that is shown once it is known

  function tile(network) {
    const used = share(network.size - network.free, network.size);
    const text = `${network.networkName} ${percent(used)}`;
    const subnets = [network.subnet, network.ipv6Subnet].filter(Boolean).join(", ");
    const said = `${network.tenantName} ${network.networkName}, ${subnets}: ${network.size - network.free} of `
      + `${network.size} IPv4 addresses used, ${network.ipv6Granted} of IPv6`;
    const before = tiles.get(network.key);
    if (before && before.said === said) return before;
    return {
      said,
      node: h("li", {}, h("button", { type: "button", class: `cell heat-${step(used)}`, title: said, on: { click: () => blocks(network) } },
        h("b", {}, text), h("span", {}, network.tenantName), h("span", {}, network.subnet || network.ipv6Subnet))),
    };
  }

  async function blocks(network) {
    try {
      detail.replaceChildren(h("p", {}, "Reading…"));
      const found = await all("endpoints", { query: { tenant: network.tenantName, network: network.networkName }, signal });
      detail.replaceChildren(...blockMap(network, found));
    } catch (error) {
      fail(error);
    }
  }

  await follow(["networks", "endpoints"], async () => {
    const networks = await all("ipam", { signal });
    const fresh = new Map(networks.map((one) => [one.key, tile(one)]));
    for (const [key, old] of tiles) if (fresh.get(key) !== old) old.node.remove();
    networks.forEach((one, at) => {
      const { node } = fresh.get(one.key);
      if (map.children[at] !== node) map.insertBefore(node, map.children[at] || null);
    });
    tiles.clear();
    for (const [key, one] of fresh) tiles.set(key, one);
    none.hidden = networks.length > 0;
    const wanted = networks.find((one) => one.key === chosen);
    chosen = "";
    if (wanted) await blocks(wanted);
  }, view);
}

/* The subnet in at most 256 equal blocks, with how many endpoints have an address in each. */
function blockMap(network, endpoints) {
  if (!network.subnet) return [h("p", {}, `${network.networkName} has addresses of IPv6 alone: ${network.ipv6Granted} are in use.`)];
  const [base, length] = network.subnet.split("/");
  const first = number(base);
  const size = 2 ** (32 - Number(length));
  const width = Math.max(1, size / BLOCKS);
  const counts = new Array(Math.ceil(size / width)).fill(0);
  for (const address of endpoints.flatMap((one) => one.addresses)) {
    if (address.includes(".")) counts[Math.floor((number(address) - first) / width)] += 1;
  }
  const cells = counts.map((count, at) => {
    const prefix = `${dotted(first + at * width)}/${32 - Math.log2(width)}`;
    const query = { tenant: network.tenantName, network: network.networkName, address: prefix };
    return h("li", {}, count
      ? h("a", { class: `block heat-${step(share(count, width))}`, href: to("endpoints", query), "aria-label": `${prefix}: ${count} of ${width}`, title: `${prefix}: ${count} of ${width}` })
      : h("span", { class: "block heat-0", title: `${prefix}: none` }));
  });
  const text = `${network.tenantName} ${network.networkName}: addresses of ${endpoints.length} endpoints, ${counts.length} blocks of ${width}`;
  return [h("h2", {}, text), h("ul", { class: "blocks" }, cells)];
}

function legend() {
  const steps = Array.from({ length: STEPS }, (_, at) =>
    h("span", { class: `key heat-${at}` }, at ? `≤ ${Math.round((at / (STEPS - 1)) * 100)} %` : "none"));
  return h("p", { class: "legend" }, "Used: ", steps);
}

function share(used, size) {
  return size ? used / size : 0;
}

function percent(used) {
  return used > 0 && used < 0.01 ? "< 1 %" : `${Math.round(used * 100)} %`;
}

function step(used) {
  return Math.min(STEPS - 1, Math.ceil(used * (STEPS - 1)));
}

function number(address) {
  return address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
}

function dotted(value) {
  return [24, 16, 8, 0].map((bits) => Math.floor(value / 2 ** bits) % 256).join(".");
}
