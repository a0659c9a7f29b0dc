/* Which view is shown: the part of the address behind `#/`, with its query. */

/** Return the view's name and its query. */
export function here() {
  const [name, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { name: name || "overview", query: Object.fromEntries(new URLSearchParams(query)) };
}

/** Return the address of a view. */
export function to(name, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "");
  return `#/${name}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

/** Put a query into the address without showing the view anew. */
export function keep(query) {
  history.replaceState(null, "", to(here().name, query));
}
