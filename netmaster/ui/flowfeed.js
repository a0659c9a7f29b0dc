/* Records of flows for a view: the newest of all hosts, and each that begins or ends while the view is shown. */

import { ask, Refused, watch } from "./api.js";
import { h, link, s } from "./dom.js";
import { to } from "./router.js";

const PAGE = 1000;
const DRAW = 500; // milliseconds between two drawings, however many records come
const SPARE = 1.2; // so much more than is kept may come before the oldest go

/** Seconds of a range of time -> its name; 0 is all that hosts keep. */
export const RANGES = [["300", "the last 5 minutes"], ["900", "the last 15 minutes"], ["3600", "the last hour"], ["0", "all that is kept"]];

/**
 * Return {begin, rows, told}. `begin(query, seconds)` asks for what fits, and leaves what was asked before; `changed()`
 * is called when there is something new to draw. `rows()` are at most so many records (`most`) of the last seconds, the
 * newest first; `told()` is what the hosts say of themselves.
 */
export function flowFeed({ most, changed, signal, fail, well }) {
  let records = new Map();
  let told = { off: [], lost: {}, unreachable: {}, more: false };
  let range = 0;
  let drawing = 0;
  let own = new AbortController();
  signal.addEventListener("abort", () => own.abort());

  function begin(query, seconds) {
    own.abort();
    own = new AbortController();
    records = new Map();
    range = Number(seconds);
    if (!signal.aborted) follow(query, own.signal);
  }

  /* The watch begins first, or what begins between a list and its watch would be in neither. */
  function follow(query, until) {
    watch("flows/watch", {
      query,
      signal: until,
      take(type, data) {
        if (type === "flow") add(data);
        else told = { ...told, ...data };
        draw();
      },
      state(word, error) {
        if (word === "live") read(query, until);
        else if (word === "out") fail(new Refused(401, { detail: "log in again" }));
        else fail(error || new Refused(0, { detail: "the watch of flows has ended", remedy: "it is tried again" }));
      },
    });
  }

  async function read(query, until) {
    const since = range ? new Date(Date.now() - 1000 * range).toISOString() : "";
    let after = "";
    try {
      do {
        const page = await ask("flows", { query: { ...query, since, limit: Math.min(PAGE, most), after }, signal: until });
        page.items.forEach(add);
        after = page.next;
        told = { off: page.off, lost: page.lost, unreachable: page.unreachable, more: after !== "" };
      } while (after && records.size < most);
      well();
      draw();
    } catch (error) {
      if (error.name !== "AbortError") fail(error);
    }
  }

  function add(record) {
    const key = `${record.host}.${record.number}`;
    const known = records.get(key);
    if (!known || known.last <= record.last) records.set(key, { key, ...record });
    if (records.size > most * SPARE) records = new Map(newest([...records.values()]).map((one) => [one.key, one]));
  }

  function newest(all) {
    return all.sort((one, other) => (one.first < other.first ? 1 : -1)).slice(0, most);
  }

  function rows() {
    const since = range ? new Date(Date.now() - 1000 * range).toISOString() : "";
    return newest([...records.values()].filter((one) => one.last >= since));
  }

  function draw() {
    if (drawing) return;
    drawing = setTimeout(() => {
      drawing = 0;
      if (!own.signal.aborted) changed();
    }, DRAW);
  }

  return { begin, rows, told: () => told };
}

/** Return what the records lack, in texts. */
export function lacks({ off, lost, unreachable }) {
  const counted = (by) => Object.entries(by).filter(([, count]) => count).map(([cause, count]) => `${count.toLocaleString("en")} ${cause}`).join(", ");
  return [
    ...(off.length ? [`No flows are recorded on ${off.join(", ")}: start netplugin there with --flow-records.`] : []),
    ...Object.entries(lost).map(([host, by]) => `The records of ${host} lack some: ${counted(by)}.`),
    ...Object.entries(unreachable).map(([host, why]) => `Host ${host} did not answer: ${why}`),
  ];
}

/** Return what an end of a flow is called. */
export function endName(end) {
  if (end.pod) return `${end.namespace}/${end.pod}`;
  return end.container || end.endpoint || end.address;
}

/** Return the protocol of a record, with the port that was asked where it has ports. */
export function portOf({ protocol, destination }) {
  return `${protocol}${destination.port ? `/${destination.port}` : ""}`;
}

const SIGNS = { forwarded: "good", dropped: "bad", audited: "some" };

/** Return what became of a record's packets, as a sign with a word. */
export function verdictOf({ verdict, reason }) {
  return h("span", { class: `badge ${SIGNS[verdict]}` }, reason ? `${verdict}: ${reason}` : verdict);
}

/** Return a number of bytes in words. */
export function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let shown = count;
  for (; shown >= 1000 && at < units.length - 1; at += 1) shown /= 1000;
  return `${at && shown < 10 ? shown.toFixed(1) : Math.round(shown)} ${units[at]}`;
}

/** Return the way to the trace of what a record is about. */
export function traceOf({ source, destination, protocol }) {
  const port = ["tcp", "udp"].includes(protocol) ? String(destination.port) : "";
  const asked = { src: source.endpoint || source.address, dst: destination.endpoint || destination.address, port };
  return link(to("trace", { ...asked, proto: ["tcp", "udp", "icmp"].includes(protocol) ? protocol : "" }), "Trace it");
}

/** Return the records as bars over time, what was dropped on top; `columns` are how many bars. */
export function sparkline(rows, columns = 60) {
  const records = rows.filter(({ verdict }) => verdict !== "audited"); // their connections have records of their own
  if (!records.length) return null;
  const times = records.map((one) => Date.parse(one.first));
  const first = times.reduce((one, other) => Math.min(one, other));
  const span = Math.max(1, times.reduce((one, other) => Math.max(one, other)) - first);
  const bars = Array.from({ length: columns }, () => ({ forwarded: 0, dropped: 0 }));
  records.forEach((one, at) => { bars[Math.min(columns - 1, Math.floor((columns * (times[at] - first)) / span))][one.verdict] += 1; });
  const highest = Math.max(...bars.map((one) => one.forwarded + one.dropped));
  const dropped = bars.reduce((sum, one) => sum + one.dropped, 0);
  const label = `${records.length} flows, ${dropped} dropped, over ${Math.round(span / 1000)} seconds; at most ${highest} in a sixtieth of them`;
  return s("svg", { class: "sparkline", viewBox: `0 0 ${columns * 10} 40`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    bars.map((one, at) => {
      const passed = (38 * one.forwarded) / highest;
      const lost = (38 * one.dropped) / highest;
      return [
        s("rect", { class: "passed", x: at * 10 + 1, width: 8, y: 40 - passed, height: passed }),
        s("rect", { class: "lost", x: at * 10 + 1, width: 8, y: 40 - passed - lost, height: lost }),
      ];
    }));
}
