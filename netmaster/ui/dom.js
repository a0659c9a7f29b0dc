/* Makes elements. Texts become text nodes and nothing else: names in the store are not to be trusted. */

const SVG = "http://www.w3.org/2000/svg";

/** Return an element: `on` has listeners, `class` and all others are attributes; false leaves one out. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Return an element of SVG, as `h`. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, { on = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    node.setAttribute(name, value === true ? "" : value);
  }
  for (const [event, listener] of Object.entries(on)) node.addEventListener(event, listener);
  node.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false));
  return node;
}

let fields = 0;

/** Return a labelled field of a form. */
export function field(label, control) {
  fields += 1;
  control.id = `field-${fields}`;
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control);
}

/** Return fields as a form that is never sent; on a narrow screen they are folded. */
export function filters(on, ...some) {
  const wide = matchMedia("(min-width: 40rem)");
  const form = h("form", { class: "filters", role: "search", on: { submit: (event) => event.preventDefault(), ...on } }, some);
  const fold = h("details", { class: "fold", open: wide.matches }, h("summary", {}, "Filters"), form);
  wide.addEventListener("change", () => { fold.open = wide.matches; });
  return fold;
}

/** Return what tells that something goes on, with the seconds since; `tell(text)` adds to it. It ends with its element. */
export function progress(text) {
  const began = performance.now();
  const words = h("span", {}, text);
  const seconds = h("span", { "aria-hidden": "true" });
  const node = h("p", { class: "progress", role: "status" }, h("progress", { "aria-label": text }), " ", words, seconds);
  let more = "";
  const timer = setInterval(() => {
    if (!node.isConnected) clearInterval(timer);
    seconds.textContent = ` ${Math.floor((performance.now() - began) / 1000)} s${more && `, ${more}`}`;
  }, 250);
  return { node, tell: (said) => { more = said; } };
}

/** Return a link that saves a blob as a file. */
export function saved(blob, name) {
  return h("a", { href: URL.createObjectURL(blob), download: name, class: "save" }, `Save ${name} (${blob.size.toLocaleString("en")} bytes)`);
}

/** Return a link. */
export function link(href, ...text) {
  return h("a", { href }, text);
}

/** Return [name, value] pairs as a list, without those that have no value. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value).map(([name, value]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** Return a choice among texts, or among [value, text] pairs. */
export function select(name, options, chosen) {
  const items = options.map((one) => (Array.isArray(one) ? one : [one, one]));
  return h("select", { name },
    items.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
}

/** Return a time with its date and zone, as `2026-03-01 09:05:00 UTC+01:00`, in the zone of the browser. */
export function moment(given) {
  const at = new Date(given);
  const two = (number) => String(Math.abs(number)).padStart(2, "0");
  const east = -at.getTimezoneOffset();
  const zone = `UTC${east < 0 ? "-" : "+"}${two(Math.trunc(east / 60))}:${two(east % 60)}`;
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
  const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
  return h("time", { datetime: at.toISOString() }, `${day} ${clock} ${zone}`);
}

/** Return a table of rows of texts or nodes; the first column names the row. */
export function plainTable(caption, heads, rows) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, heads.map((one) => h("th", { scope: "col" }, one)))),
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((one, at) =>
        at ? h("td", {}, one) : h("th", { scope: "row" }, one)))))));
}

/** Tell people who hear the page what has changed. */
export function say(text) {
  document.getElementById("said").textContent = text;
}
