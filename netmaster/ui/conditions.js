/* On how many hosts an object is applied, and why not on the first of the others. */

import { ask } from "./api.js";
import { h, moment, progress } from "./dom.js";

/** Return a line that says it, as soon as it is known; `kind` is the object's plural in API v2. */
export function conditionOf(kind, key, signal) {
  const line = h("p", {}, progress("Asking on which hosts it is applied").node);
  ask(`${kind}/${encodeURIComponent(key)}/conditions`, { signal }).then(
    ({ conditions, absent }) => line.replaceChildren(...conditions.flatMap(told), absent.length ? ` No agent runs on ${absent.join(", ")}.` : ""),
    (error) => line.replaceChildren(error.message));
  return line;
}

function told({ status, since, hosts, of, host, reason }) {
  return [
    h("span", { class: `badge ${status ? "good" : "some"}` }, status ? "applied" : "not applied"),
    ` on ${hosts} of ${of} hosts${since ? `, seen so since ${moment(since)}` : ""}.`,
    host ? ` ${host}: ${reason}.` : "",
  ];
}
