/** What is around every page: where one can go, who is away, what was done. */
import { link } from "../core/route.js";
import { loggedIn, loginWanted, logout } from "../edge/api.js";
import { away, go, language, notices, route, state, t } from "../edge/store.js";
import { html, useEffect, useState } from "../parts/html.js";
import { Empty } from "../parts/basics.js";
import { Dialog, openDialog } from "../parts/dialog.js";
import { Login } from "./login.js";
import { Deployments } from "./deployments.js";
import { Create, Edit } from "./edit.js";
import { EventsPage } from "./events.js";
import { Frameworks } from "./frameworks.js";
import { Gpus } from "./gpus.js";
import { Instance } from "./instance.js";
import { Machines } from "./machines.js";
import { Overview } from "./overview.js";
import { Roles } from "./roles.js";
import { Service } from "./service.js";
import { Services } from "./services.js";
import { Usage } from "./usage.js";

/** @type {Record<string, (props: {id: string, query: Record<string, string>}) => any>} */
const PAGES = {
  overview: Overview,
  services: (props) => (props.id ? Service(props) : Services(props)),
  create: Create,
  edit: Edit,
  instances: Instance,
  gpus: Gpus,
  usage: Usage,
  machines: Machines,
  deployments: Deployments,
  roles: Roles,
  frameworks: Frameworks,
  events: EventsPage,
};
/** The pages of the menu, each with the key that leads there after `g`. */
export const MENU = [
  ["overview", "o"],
  ["services", "s"],
  ["gpus", "u"],
  ["usage", "h"],
  ["machines", "m"],
  ["deployments", "d"],
  ["events", "e"],
  ["roles", "r"],
  ["frameworks", "f"],
];

/** The whole page. */
export function Shell() {
  const { page, id, query } = route.value;
  const Page = PAGES[page];
  useKeys();
  useEffect(() => {
    document.documentElement.lang = language.value === "zh" ? "zh-Hans" : "en";
    document.title = `${id || t(`page.${Page ? page : "unknown"}`)} · mesos-gpu`;
  });
  if (loginWanted.value) return html`<main class="alone"><${Login} where=${loginWanted.value} /></main>`;
  return html`
    <a class="skip" href="#main" onClick=${skip}>${t("skip")}</a>
    <header class="top">
      <a class="brand" href=${link("overview")}><img src="icon.svg" alt="" width="24" height="24" />mesos-gpu</a>
      <nav aria-label=${t("menu")} class="menu">
        ${MENU.map(([name]) => html`<a href=${link(name ?? "")} aria-current=${name === page ? "page" : undefined}>${t(`page.${name}`)}</a>`)}
      </nav>
      <span class="top-end">
        <button type="button" class="quiet" onClick=${turnLanguage} lang=${language.value === "zh" ? "en" : "zh-Hans"}>${language.value === "zh" ? "English" : "中文"}</button>
        <button type="button" class="quiet" onClick=${() => openDialog(html`<${Keys} />`)} aria-label=${t("keys.title")}>?</button>
        ${loggedIn() && html`<button type="button" class="quiet" onClick=${logout}>${t("logout")}</button>`}
      </span>
    </header>
    <${Banner} />
    <main id="main" tabindex="-1">
      ${Page ? html`<${Page} key=${page + id} id=${id} query=${query} />` : html`<${Empty} title=${t("page.unknown")} text=${t("unknown.text")}><p><a href=${link("services")}>${t("page.services")}</a></p><//>`}
    </main>
    <${Notices} />
    <${Dialog} />
  `;
}

/** Who is away, above everything until they are back. */
function Banner() {
  const gone = Object.keys(away.value);
  const agents = state.value.agents.filter((agent) => !agent.active);
  return html`<div class="banners" role="status">
    ${gone.map((who) => html`<p class="banner" key=${who}><span class="shape" aria-hidden="true">△</span> ${t(`away.${who}`)}</p>`)}
    ${!gone.length && agents.length > 0 && html`<p class="banner"><span class="shape" aria-hidden="true">△</span> ${t("away.agents", { count: agents.length, names: agents.slice(0, 3).map((agent) => agent.pid.split("@")[1] ?? agent.hostname).join(", ") })}</p>`}
  </div>`;
}

/** What was done, for those who see and those who hear. */
function Notices() {
  return html`<div class="notices" role="log" aria-live="polite" aria-label=${t("notices")}>
    ${notices.value.map((one) => html`<p key=${one.id} class=${one.bad ? "notice bad" : "notice"}>${one.text}</p>`)}
  </div>`;
}

/** The keys. */
function Keys() {
  return html`<h2>${t("keys.title")}</h2>
    <dl class="keys">
      ${MENU.map(([name, key]) => html`<div><dt><kbd>g</kbd> <kbd>${key}</kbd></dt><dd>${t(`page.${name}`)}</dd></div>`)}
      <div><dt><kbd>/</kbd></dt><dd>${t("keys.filter")}</dd></div>
      <div><dt><kbd>c</kbd></dt><dd>${t("keys.create")}</dd></div>
      <div><dt><kbd>?</kbd></dt><dd>${t("keys.title")}</dd></div>
      <div><dt><kbd>Esc</kbd></dt><dd>${t("keys.close")}</dd></div>
    </dl>`;
}

function useKeys() {
  const [, setFirst] = useState("");
  useEffect(() => {
    let first = "";
    /** @param {KeyboardEvent} event */
    const press = (event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return;
      if (document.querySelector("dialog[open]")) return;
      const menu = first === "g" && MENU.find(([, key]) => key === event.key);
      first = event.key;
      setFirst(first);
      if (menu) {
        go(link(menu[0] ?? ""));
        document.getElementById("main")?.focus();
      } else if (event.key === "?") openDialog(html`<${Keys} />`);
      else if (event.key === "/") document.querySelector(/** @type {any} */ ("input[type=search]"))?.focus();
      else if (event.key === "c") go(link("create"));
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function turnLanguage() {
  language.value = language.value === "zh" ? "en" : "zh";
}
