/* Which pages there are, in sections: the bar of sections, and below it the pages of the one that is shown. */

import { h } from "./dom.js";
import { to } from "./router.js";

/* Title of a section -> its pages: name in the address -> title and module. */
const SECTIONS = {
  Overview: { overview: ["Overview", "overview"] },
  Hosts: { hosts: ["Hosts", "hosts"], bgp: ["BGP", "bgp"] },
  Network: {
    endpoints: ["Endpoints", "endpoints"], networks: ["Networks", "objects"], addresses: ["Addresses", "addresses"],
    groups: ["Groups", "objects"], services: ["Services", "services"], tenants: ["Tenants", "objects"],
  },
  Policy: { policies: ["Policies", "policies"], reach: ["Who may talk", "reach"], "what-if": ["What if", "whatif"] },
  Flows: { flows: ["Flows", "flows"], map: ["Map", "flowmap"] },
  Diagnose: { trace: ["Trace", "trace"], selftest: ["Self-test", "selftest"], capture: ["Capture", "capture"] },
  Changes: { changes: ["Changes", "changes"] },
};

/** Return the module of a page; undefined for a page that there is not. */
export function moduleOf(name) {
  return Object.values(SECTIONS).find((pages) => Object.hasOwn(pages, name))?.[name][1];
}

/** Show where a page is. */
export function mark(name) {
  const links = Object.entries(SECTIONS).map(([title, pages]) => {
    const names = Object.keys(pages);
    const current = names.includes(name) && (names.length > 1 ? "true" : "page");
    return h("a", { href: to(names[0]), "aria-current": current }, title);
  });
  const pages = Object.values(SECTIONS).find((some) => Object.hasOwn(some, name)) || {};
  const inside = Object.entries(pages).map(([one, [title]]) =>
    h("a", { href: to(one), "aria-current": one === name && "page" }, title));
  document.getElementById("nav").replaceChildren(...links);
  document.getElementById("pages").replaceChildren(...(inside.length > 1 ? inside : []));
  document.getElementById("pages").hidden = inside.length < 2;
}
