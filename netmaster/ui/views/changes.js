/* Who changed what: the last changes, and new ones as they are made. */

import { ask } from "../api.js";
import { h, moment, say } from "../dom.js";
import { follow } from "../live.js";
import { rowsTable } from "../table.js";

const MOST = 200;

export const title = () => "Changes";

export async function show(root, view) {
  const table = rowsTable("Changes", [
    { head: "Time", of: (one) => moment(one.at), by: (one) => one.number },
    { head: "Who", of: (one) => one.who || one.address },
    { head: "Action", of: (one) => one.action },
    { head: "Kind", of: (one) => one.kind },
    { head: "Object", of: (one) => one.object },
    { head: "Fields", of: (one) => one.fields },
  ], { open, empty: ["Nothing was changed yet, or nothing that you may see. Create something, and it is told here: ",
    h("code", {}, "netctl net create -s 10.1.0.0/16 -g 10.1.0.254 front")] });
  root.append(h("p", { class: "summary" }, `The last ${MOST}, the newest first; new ones appear as they are made.`), table.node);
  let newest = 0;

  await follow(null, async () => {
    const { items } = await ask("changes", { query: { limit: MOST }, signal: view.signal });
    const rows = items.flatMap(rowsOf);
    table.set(rows);
    if (newest && rows.length && rows[0].number > newest) say(`${rows[0].action} ${rows[0].kind} ${rows[0].object}`);
    newest = rows.length ? rows[0].number : newest;
  }, view);
}

function open(one) {
  return [
    h("h2", {}, `${one.action} ${one.kind} ${one.object}`), h("p", {}, moment(one.at), ` by ${one.who || one.address}`),
    h("p", {}, one.fields),
  ];
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
