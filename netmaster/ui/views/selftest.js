/* The self-test of all hosts, and the archive that a report of a fault needs. */

import { ask, download } from "../api.js";
import { h, plainTable, progress, saved, say } from "../dom.js";

export const title = () => "Self-test";

export async function show(root, { signal, fail, well }) {
  const result = h("div", {});
  const archive = h("div", {});
  root.append(
    h("p", {}, "Every host tests itself, and its ways to all others. It takes up to half a minute."),
    action("Test now", result, "All hosts test themselves", async () => {
      const found = await ask("selftest", { signal });
      say(found.passed ? "passed" : "failed");
      return report(found);
    }),
    result,
    h("h2", {}, "Diagnosis"),
    h("p", {}, "One archive of what all masters and hosts say of themselves: versions, settings, health, logs. Secrets are taken out."),
    action("Make a diagnosis", archive, "Asking all masters and hosts", async (tell) => {
      const blob = await download("diagnosis", { signal, got: (size) => tell(`${size.toLocaleString("en")} bytes`) });
      return [h("p", {}, saved(blob, "contiv-diagnosis.tar.gz"))];
    }),
    archive);

  /* A button that shows in a place how its work goes on, and what comes of it. */
  function action(name, place, text, work) {
    const button = h("button", { type: "button", on: { click } }, name);
    async function click() {
      const going = progress(text);
      button.disabled = true;
      place.replaceChildren(going.node);
      try {
        const found = await work(going.tell);
        well();
        place.replaceChildren(...found);
      } catch (error) {
        place.replaceChildren();
        fail(error);
      }
      button.disabled = false;
    }
    return h("p", {}, button);
  }
}

function report({ passed, hosts }) {
  if (!hosts.length) return [h("p", { class: "empty" }, "No host has registered yet, so nothing was tested. Start netplugin on a host, with the store of this cluster.")];
  const checks = hosts.flatMap(({ host, checks: some }) => Object.entries(some).map(([name, one]) => ({ host, name, ...one })));
  const failures = checks.flatMap((one) => Object.entries(one.failed).map(([what, why]) => [one.host, `${one.name}: ${what}`, why]));
  return [
    h("p", { class: `verdict ${passed ? "good" : "bad"}` }, h("b", {}, passed ? "Passed" : "Failed"),
      ` ${checks.reduce((sum, one) => sum + one.passed, 0)} checks on ${hosts.length} hosts passed, ${failures.length} failed`),
    failures.length > 0 && plainTable("What failed", ["Host", "Check", "Why"], failures),
    h("details", {}, h("summary", {}, "All checks"), plainTable("All checks", ["Host", "Check", "Passed", "Failed"],
      checks.map((one) => [one.host, one.name, String(one.passed), String(Object.keys(one.failed).length)]))),
  ].filter(Boolean);
}
