/* A table of any length, of which only the rows in sight are in the document. */

import { h } from "./dom.js";

const ROW = 34; // pixels, as .rows td in app.css
const SPARE = 10; // rows above and below those in sight

/**
 * Return a table. `columns` are {head, of(row)} whose values are texts or nodes; the first names the row.
 * `set(rows)` shows rows, each with a `key`; `onEnd` is called when the last rows come into sight.
 */
export function rowsTable(label, columns, { onEnd = () => {} } = {}) {
  const body = h("tbody", {});
  const table = h("table", { class: "rows" },
    h("caption", { class: "unseen" }, label),
    h("thead", {}, h("tr", {}, columns.map((one) => h("th", { scope: "col" }, one.head)))), body);
  const node = h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": label }, table);
  const above = spacer();
  const below = spacer();
  let rows = [];
  let shown = new Map(); // key -> {text, node}, of the rows in the document

  function draw() {
    const first = Math.max(0, Math.floor(node.scrollTop / ROW) - SPARE);
    const last = Math.min(rows.length, Math.ceil((node.scrollTop + node.clientHeight) / ROW) + SPARE);
    const next = new Map();
    for (let at = first; at < last; at += 1) next.set(rows[at].key, rendered(rows[at], at));
    set(above, first);
    set(below, rows.length - last);
    place([above.node, ...[...next.values()].map((one) => one.node), below.node]);
    shown = next;
    if (last === rows.length) onEnd();
  }

  /* A row that stays as it is keeps its element, and with it the focus. */
  function rendered(row, at) {
    const text = JSON.stringify(row);
    const before = shown.get(row.key);
    const fresh = before?.text === text ? before : {
      text,
      node: h("tr", { class: before ? "changed" : false }, columns.map((one, column) =>
        h(column ? "td" : "th", column ? {} : { scope: "row" }, one.of(row)))),
    };
    fresh.node.setAttribute("aria-rowindex", at + 2);
    return fresh;
  }

  function place(nodes) {
    const wanted = new Set(nodes);
    for (const old of [...body.children]) if (!wanted.has(old)) old.remove();
    nodes.forEach((one, at) => {
      if (body.children[at] !== one) body.insertBefore(one, body.children[at] || null);
    });
  }

  node.addEventListener("scroll", () => requestAnimationFrame(draw));
  return {
    node,
    set(wanted) {
      rows = wanted;
      table.setAttribute("aria-rowcount", rows.length + 1);
      draw();
    },
  };

  function spacer() {
    const cell = h("td", { colspan: columns.length });
    return { node: h("tr", { "aria-hidden": "true", class: "spacer" }, cell), cell };
  }

  function set(one, count) {
    one.cell.style.height = `${count * ROW}px`;
    one.node.hidden = count === 0;
  }
}
