/* Starts the page: asks who is there, shows the view that the address names, and the form to log in. */

import { ask, logIn, logOut, loggedIn, Refused } from "./api.js";
import { field, h } from "./dom.js";
import { connect } from "./live.js";
import { here } from "./router.js";
import { mark, moduleOf } from "./sections.js";

const LINK = { live: "live", lost: "connection lost, trying again", out: "not logged in", off: "no live changes" };
const main = document.getElementById("main");
let me = null;
let stream = new AbortController();
let shown = new AbortController();

async function show({ focus = true } = {}) {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const { name, query } = here();
  mark(name);
  try {
    const module = moduleOf(name);
    if (!module) throw new Refused(404, { detail: `there is no view ${name}` });
    const [view] = await Promise.all([import(`./views/${module}.js`), me === null && begin()]);
    if (signal.aborted) return;
    const title = view.title(name);
    document.title = `${title} - Contiv`;
    const root = h("div", { class: "view" });
    main.replaceChildren(h("h1", { tabindex: "-1" }, title), root);
    if (focus) main.querySelector("h1").focus();
    const own = (report) => (error) => signal.aborted || report(error);
    await view.show(root, { name, query, me, signal, fail: own(fail), well: own(well) });
  } catch (error) {
    if (error.name !== "AbortError" && !signal.aborted) fail(error);
  }
}

async function begin() {
  me = await ask("whoami");
  document.getElementById("who").textContent = me.name ? `${me.name}, ${me.role}` : "";
  document.getElementById("logout").hidden = !loggedIn();
  stream.abort();
  stream = new AbortController();
  connect((state) => {
    const link = document.getElementById("link");
    link.textContent = LINK[state];
    link.dataset.state = state;
    if (state === "out") fail(new Refused(401, { detail: "log in again" }));
  }, stream.signal);
}

/* A view's failure: a form for one who is not known, a text for all else. */
function fail(error) {
  if (error.name === "AbortError") return;
  if (error.status === 401) {
    if (main.querySelector(".login")) return; // what is typed there stays
    shown.abort(); // a view that goes on asking would take the form away
    main.replaceChildren(h("h1", {}, "Log in"), loginForm(error));
    main.querySelector("input").focus();
    return;
  }
  const text = error.status === 403 ? `Your role may not see this: ${error.message}` : error.message;
  const old = main.querySelector(".failure");
  if (old?.dataset.text === text) return; // said already
  old?.remove();
  main.append(h("div", { class: "failure", role: "alert", "data-text": text },
    h("p", {}, text), error.remedy && h("p", {}, error.remedy)));
}

/* What failed before works. */
function well() {
  main.querySelector(".failure")?.remove();
}

function loginForm(reason) {
  const refusal = h("p", { role: "alert" }, loggedIn() ? reason.message : "");
  const form = h("form", { class: "login", on: { submit } },
    field("User name", h("input", { name: "user", autocomplete: "username", required: true })),
    field("Password", h("input", { name: "password", type: "password", autocomplete: "current-password", required: true })),
    h("button", { type: "submit" }, "Log in"), refusal);

  async function submit(event) {
    event.preventDefault();
    try {
      await logIn(form.elements.user.value, form.elements.password.value);
      me = null;
      await show();
    } catch (error) {
      refusal.textContent = error.message;
    }
  }
  return form;
}

document.getElementById("logout").addEventListener("click", () => {
  logOut();
  me = null;
  stream.abort();
  document.getElementById("who").textContent = "";
  document.getElementById("logout").hidden = true;
  show();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names the view
  main.focus();
});
addEventListener("hashchange", () => show());
show({ focus: false });
