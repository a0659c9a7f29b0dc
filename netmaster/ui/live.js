/* Keeps views up to date by one stream for the page: of objects' changes, and of what lists have changed. */

import { watch } from "./api.js";

const WAIT = 60; // milliseconds in which changes are gathered before a list is read again
const RETRY = 2000; // milliseconds until a list that could not be read is read again
const listeners = new Set();

/** Open the stream of changes; `state` hears of the connection. */
export function connect(state, signal) {
  watch("events", {
    query: { lists: "endpoints,hosts" },
    signal,
    state,
    take(type, data) {
      const lists = (data.lists || []).map((kind) => ({ kind }));
      const changes = type === "changes" ? data.changes : lists;
      for (const each of [...listeners]) each(type, changes);
    },
  });
}

/** Call `heard(changes)` for changes of these kinds, null for all, with null when everything must be read again. */
export function onChanges(kinds, heard, signal) {
  const listener = (type, changes) => {
    if (type === "reset" || type === "ready") return heard(null);
    const own = changes.filter((one) => kinds === null || kinds.includes(one.kind));
    return own.length ? heard(own) : undefined;
  };
  listeners.add(listener);
  signal.addEventListener("abort", () => listeners.delete(listener));
}

/**
 * Run `read` now and at changes of these kinds, null for all: once for those that come together, and while the page
 * is seen. Kinds are those of objects, and `hosts` and `endpoints`.
 */
export async function follow(kinds, read, { signal, fail, well }) {
  let due = true;
  let busy = false;

  async function run() {
    if (busy) return;
    busy = true;
    while (due && !signal.aborted) {
      due = false;
      let pause = WAIT;
      try {
        await read();
        well();
      } catch (error) {
        fail(error);
        due = ![400, 403].includes(error.status);
        if (due) pause = RETRY;
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
      await seen();
    }
    busy = false;
  }

  onChanges(kinds, () => {
    due = true;
    run();
  }, signal);
  await run();
}

/* Ends when somebody sees the page. */
async function seen() {
  while (document.hidden) await new Promise((resolve) => addEventListener("visibilitychange", resolve, { once: true }));
}
