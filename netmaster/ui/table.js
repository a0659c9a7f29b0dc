/* A table of any length, of which only the rows in sight are in the document. It can be sorted, and a row opened. */

import { h } from "./dom.js";

const ROW = 34; // pixels, as .rows td in app.css
const SPARE = 10; // rows above and below those in sight
const ORDER = new Intl.Collator("en", { numeric: true });

/**
 * Return a table. `columns` are {head, of(row), by}: `of` gives a text or a node; the first names the row. `by(row)`
 * gives what to sort by, where `of` is no text; a column with `by: false` is not sorted.
 * `set(rows)` shows rows, each with a `key`; `onEnd` is called when the last rows come into sight. `open(row)` gives
 * what is told of a row that is chosen; `empty` stands for the table while there is no row. With `onSort`, rows are
 * sorted by who sets them: it hears the `by` of the column, a text, and whether downwards.
 */
export function rowsTable(label, columns, { onEnd = () => {}, open, empty = null, onSort } = {}) {
  const body = h("tbody", {});
  const heads = columns.map((one, at) => h("th", { scope: "col" }, one.by === false ? one.head
    : h("button", { type: "button", class: "sort", on: { click: () => sortBy(at) } }, one.head)));
  const table = h("table", { class: "rows" },
    h("caption", { class: "unseen" }, label), h("thead", {}, h("tr", {}, heads)), body);
  const region = h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": label }, table);
  const instead = h("div", { class: "empty", hidden: true }, empty);
  const detail = h("section", { class: "detail", "aria-label": "What is chosen", tabindex: "-1" });
  const node = h("div", {}, region, instead, detail);
  const above = spacer();
  const below = spacer();
  let rows = [];
  let sorted = null; // {at, down}
  let opened = null; // the key of the row that is told of
  let shown = new Map(); // key -> {text, node}, of the rows in the document

  function sortBy(at) {
    sorted = { at, down: sorted?.at === at && !sorted.down };
    heads.forEach((head, number) => {
      if (number === at) head.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    region.scrollTop = 0;
    if (onSort) onSort(columns[at].by, sorted.down);
    else show(rows);
  }

  function show(wanted) {
    rows = onSort || sorted === null ? wanted : inOrder(wanted);
    table.setAttribute("aria-rowcount", rows.length + 1);
    region.hidden = empty !== null && !rows.length;
    instead.hidden = !region.hidden;
    draw();
    tell();
  }

  function inOrder(wanted) {
    const { of, by = of } = columns[sorted.at];
    const keyed = wanted.map((row) => [by(row), row]);
    const compare = ([one], [other]) => (typeof one === "number" ? one - other : ORDER.compare(one, other));
    keyed.sort(sorted.down ? (one, other) => compare(other, one) : compare);
    return keyed.map(([, row]) => row);
  }

  function tell() {
    if (opened === null) return;
    const row = rows.find((one) => one.key === opened.key);
    const text = JSON.stringify(row);
    if (text === opened.text) return;
    opened = row ? { key: row.key, text } : null;
    detail.replaceChildren(...(row ? open(row) : []));
  }

  function draw() {
    const first = Math.max(0, Math.floor(region.scrollTop / ROW) - SPARE);
    const last = Math.min(rows.length, Math.ceil((region.scrollTop + region.clientHeight) / ROW) + SPARE);
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
        h(column ? "td" : "th", column ? {} : { scope: "row" }, column || !open ? one.of(row) : opener(one, row)))),
    };
    fresh.node.setAttribute("aria-rowindex", at + 2);
    return fresh;
  }

  function opener(column, row) {
    return h("button", { type: "button", class: "open", on: { click } }, column.of(row) || row.key);
    function click() {
      opened = { key: row.key, text: "" };
      tell();
      detail.scrollIntoView({ block: "nearest" });
      detail.focus();
    }
  }

  function place(nodes) {
    const wanted = new Set(nodes);
    for (const old of [...body.children]) if (!wanted.has(old)) old.remove();
    nodes.forEach((one, at) => {
      if (body.children[at] !== one) body.insertBefore(one, body.children[at] || null);
    });
  }

  region.addEventListener("scroll", () => requestAnimationFrame(draw));
  return { node, region, set: show };

  function spacer() {
    const cell = h("td", { colspan: columns.length });
    return { node: h("tr", { "aria-hidden": "true", class: "spacer" }, cell), cell };
  }

  function set(one, count) {
    one.cell.style.height = `${count * ROW}px`;
    one.node.hidden = count === 0;
  }
}
