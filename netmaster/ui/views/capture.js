/* The packets of an endpoint, as a file for Wireshark or tcpdump. */

import { download } from "../api.js";
import { field, h, progress, saved } from "../dom.js";
import { keep } from "../router.js";

export const title = () => "Capture packets";

export async function show(root, { query, signal, fail, well }) {
  const text = (name, label, value, more = {}) => field(label, h("input", { name, value: query[name] || value, ...more }));
  const start = h("button", { type: "submit" }, "Capture");
  const stop = h("button", { type: "button", hidden: true }, "Stop");
  const form = h("form", { class: "filters", on: { submit } },
    text("endpoint", "Endpoint: key, id or name", "", { required: true }),
    text("seconds", "Seconds, 1 to 50", "10", { type: "number", min: 1, max: 50 }),
    text("count", "Packets at most", "1000", { type: "number", min: 1, max: 100000 }),
    text("filter", "Filter, as tcp and port 80", ""), start, stop);
  const result = h("div", {});
  root.append(h("p", {}, "Its host captures what goes in and out of the endpoint. Whose packets were shown to whom is in netmaster's audit log."), form, result);

  async function submit(event) {
    event.preventDefault();
    const { endpoint, ...wanted } = Object.fromEntries(new FormData(form));
    keep({ endpoint, ...wanted });
    const ended = new AbortController();
    const going = progress("Capturing");
    stop.onclick = () => ended.abort();
    start.disabled = true;
    stop.hidden = false;
    result.replaceChildren(going.node);
    try {
      const blob = await download(`endpoints/${encodeURIComponent(endpoint)}/capture`, {
        query: wanted, signal: AbortSignal.any([signal, ended.signal]), got: (size) => going.tell(`${size.toLocaleString("en")} bytes`),
      });
      well();
      result.replaceChildren(h("p", {}, saved(blob, "contiv-capture.pcap")));
    } catch (error) {
      result.replaceChildren(...(ended.signal.aborted ? [h("p", {}, "Stopped; nothing was kept.")] : []));
      if (!ended.signal.aborted) fail(error);
    }
    start.disabled = false;
    stop.hidden = true;
  }
}
