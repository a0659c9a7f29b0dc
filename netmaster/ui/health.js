/* How well a host is, in a word. */

import { h } from "./dom.js";

const KINDS = { "in step": "good", drained: "some", behind: "some" };

/** Return the word for a host of `/api/v2/hosts`. */
export function healthOf(host) {
  if (!host.registered) return "no agent";
  if (host.errors.length) return "faulty";
  if (!host.applied) return "behind";
  return host.drained ? "drained" : "in step";
}

/** Return whether a host does what it shall; one that is drained does. */
export function isWell(host) {
  return ["in step", "drained"].includes(healthOf(host));
}

/** Return all that is wrong with a host, in texts. */
export function faultsOf(host) {
  if (!host.registered) return ["no agent is registered: look whether netplugin runs there"];
  return host.errors.length ? host.errors : host.applied ? [] : [host.behind || "it has not applied all changes"];
}

/** Return a sign with the word. */
export function badge(text) {
  return h("span", { class: `badge ${KINDS[text] || "bad"}` }, text);
}
