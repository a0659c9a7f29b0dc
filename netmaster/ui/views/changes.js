/* Who changed what: the last changes, and new ones as they are made. */

import { ask } from "../api.js";
import { h, say } from "../dom.js";
import { readAtChanges } from "../live.js";
import { rowsTable } from "../table.js";

const MOST = 200;
const KINDS = ["tenants", "networks", "endpointGroups", "policys", "rules", "netprofiles", "extContractsGroups",
  "appProfiles", "aciGws", "serviceLBs", "Bgps", "globals", "volumes", "volumeProfiles"];

export const title = () => "Changes";

export async function show(root, { signal, fail, well }) {
  const table = rowsTable("Changes", [
    { head: "Time", of: (one) => new Date(one.at).toLocaleTimeString() },
    { head: "Who", of: (one) => one.who || one.address },
    { head: "Action", of: (one) => one.action },
    { head: "Kind", of: (one) => one.kind },
    { head: "Object", of: (one) => one.object },
    { head: "Fields", of: (one) => h("span", { title: one.fields }, one.fields) },
  ]);
  root.append(h("p", { class: "summary" }, "The newest first; new ones appear as they are made."), table.node);
  let newest = 0;

  async function read() {
    try {
      const { items } = await ask("changes", { query: { limit: MOST }, signal });
      const rows = items.flatMap(rowsOf);
      table.set(rows);
      well();
      if (newest && rows.length && rows[0].number > newest) say(`${rows[0].action} ${rows[0].kind} ${rows[0].object}`);
      newest = rows.length ? rows[0].number : newest;
    } catch (error) {
      fail(error);
    }
  }

  readAtChanges(KINDS, read, signal);
  await read();
}

function rowsOf(change) {
  return change.objects.map((one, at) => ({
    key: `${change.number}.${at}`,
    number: change.number,
    at: change.at,
    who: change.who,
    address: change.address,
    action: one.action,
    kind: one.kind,
    object: one.key,
    fields: one.fields.map((each) => `${each.name}: ${each.before || "-"} → ${each.after || "-"}`).join(", "),
  }));
}
