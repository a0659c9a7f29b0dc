/* Keeps views up to date: one stream of changes for the page, and questions that are asked again and again. */

import { watch } from "./api.js";

const WAIT = 60; // milliseconds in which changes are gathered before a list is read again
const listeners = new Set();

/** Open the stream of changes; `state` hears of the connection. */
export function connect(state, signal) {
  watch({
    signal,
    state,
    take(type, data) {
      const changes = type === "changes" ? data.changes : [];
      for (const each of [...listeners]) each(type, changes);
    },
  });
}

/** Call `heard(changes)` for changes of these kinds, with null when everything must be read again. */
export function onChanges(kinds, heard, signal) {
  const listener = (type, changes) => {
    if (type === "reset" || type === "ready") return heard(null);
    const own = changes.filter((one) => kinds.includes(one.kind));
    return own.length ? heard(own) : undefined;
  };
  listeners.add(listener);
  signal.addEventListener("abort", () => listeners.delete(listener));
}

/** Run `read` at changes of these kinds, once for those that come together. */
export function readAtChanges(kinds, read, signal) {
  let waiting = 0;
  onChanges(kinds, () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => signal.aborted || read(), WAIT);
  }, signal);
}

/** Run `read` while the page is seen, `pause` milliseconds after it ended, until it may not be read. */
export async function poll(read, pause, { signal, fail, well }) {
  while (!signal.aborted) {
    try {
      if (!document.hidden) {
        await read();
        well();
      }
    } catch (error) {
      fail(error);
      if (error.status === 403) return;
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}
