/* Speaks to netmaster's REST API: requests with the token, whole lists, and the stream of events. */

const TOKEN = "contiv-token";
const RETRY = 1000; // milliseconds before a stream that ended is opened again

/** A refused request: `status`, the problem's text and remedy. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
    this.title = problem.title || "";
    this.remedy = problem.remedy || "";
    this.faults = problem.errors || [];
  }
}

export function loggedIn() {
  return sessionStorage.getItem(TOKEN) !== null;
}

export function logOut() {
  sessionStorage.removeItem(TOKEN);
}

/** Log in and keep the token for this tab. Raises Refused. */
export async function logIn(username, password) {
  const answer = await fetch("/api/v1/auth_proxy/login/", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ username, password }),
  });
  if (!answer.ok) throw new Refused(answer.status, { detail: (await answer.text()).trim() });
  sessionStorage.setItem(TOKEN, (await answer.json()).token);
}

/** Return the answer of a request of API v2. Raises Refused; a lost connection has status 0. */
export async function ask(path, { method = "GET", query = {}, body, headers = {}, signal } = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined);
  const search = given.length ? `?${new URLSearchParams(given)}` : "";
  const sent = { ...identity(), ...headers };
  if (body !== undefined) sent["Content-Type"] = "application/json";
  const answer = await reached(fetch(`/api/v2/${path}${search}`, {
    method, headers: sent, signal, cache: "no-store",
    body: body === undefined ? undefined : JSON.stringify(body),
  }));
  if (!answer.ok) throw new Refused(answer.status, await problemOf(answer));
  return answer.status === 204 ? null : answer.json();
}

/** Return the body of an answer of API v2 as a blob; `got` hears how many bytes have come. Raises Refused. */
export async function download(path, { query = {}, signal, got = () => {} } = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "");
  const answer = await reached(fetch(`/api/v2/${path}?${new URLSearchParams(given)}`, { headers: identity(), signal, cache: "no-store" }));
  if (!answer.ok) throw new Refused(answer.status, await problemOf(answer));
  const parts = [];
  let size = 0;
  const reader = answer.body.getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return new Blob(parts, { type: answer.headers.get("Content-Type") });
      parts.push(value);
      size += value.length;
      got(size);
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { detail: `the answer broke off after ${size} bytes`, remedy: "look at netmaster's log, then try again" });
  }
}

/** Return all items of a list, page by page. */
export async function all(path, { query = {}, signal } = {}) {
  const items = [];
  let after = "";
  do {
    const page = await ask(path, { query: { ...query, limit: 5000, after }, signal });
    items.push(...page.items);
    after = page.next;
  } while (after);
  return items;
}

/**
 * Hand each event of a stream of API v2 to `take(type, data)`, and each state of the connection to `state(word, error)`,
 * until the signal: `live`, `lost` while it tries again, `out` and `off` when it ends, refused for who asks or for what.
 */
export async function watch(path, { query = {}, take, state, signal }) {
  let last = "";
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined);
  while (!signal.aborted) {
    try {
      const headers = { ...identity(), ...(last ? { "Last-Event-ID": last } : {}) };
      const answer = await fetch(`/api/v2/${path}?${new URLSearchParams(given)}`, { headers, signal, cache: "no-store" });
      if (!answer.ok) throw new Refused(answer.status, await problemOf(answer));
      state("live");
      for await (const event of events(answer.body)) {
        if (event.id) last = event.id;
        if (event.type) take(event.type, event.data ? JSON.parse(event.data) : {});
      }
    } catch (error) {
      if (signal.aborted) return;
      if ([400, 403].includes(error.status)) return state("off", error);
      state(error.status === 401 ? "out" : "lost", error);
      if (error.status === 401) return undefined;
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY));
  }
  return undefined;
}

/* Server-sent events: EventSource cannot send a token. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) yield parsed(part);
  }
}

function parsed(part) {
  const event = { type: "", id: "", data: "" };
  for (const line of part.split("\n")) {
    const [name, ...rest] = line.split(": ");
    if (name === "event") event.type = rest.join(": ");
    if (name === "id" || name === "data") event[name] = rest.join(": ");
  }
  return event;
}

function identity() {
  const token = sessionStorage.getItem(TOKEN);
  return token === null ? {} : { "X-Auth-Token": token };
}

async function reached(request) {
  try {
    return await request;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { detail: "netmaster does not answer", remedy: "try again" });
  }
}

async function problemOf(answer) {
  try {
    return await answer.json();
  } catch {
    return {};
  }
}
