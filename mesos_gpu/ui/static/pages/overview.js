/** Overview: how it all is, in a look. */
import { link } from "../core/route.js";
import { ORDER } from "../core/services.js";
import { allServices, state, t } from "../edge/store.js";
import { html } from "../parts/html.js";
import { Ago, Empty, Name, State } from "../parts/basics.js";
import { reason } from "./services.js";

/** */
export function Overview() {
  const it = state.value;
  const all = allServices.value;
  const gpus = it.agents.reduce((sum, agent) => sum + (agent.resources.gpus ?? 0), 0);
  const held = it.agents.reduce((sum, agent) => sum + (agent.used_resources.gpus ?? 0), 0);
  const failed = [...it.apps.values()]
    .filter((app) => app.lastTaskFailure)
    .sort((a, b) => (a.lastTaskFailure.timestamp < b.lastTaskFailure.timestamp ? 1 : -1))
    .slice(0, 5);
  const trouble = all.filter((one) => ["waiting", "delayed", "unhealthy"].includes(one.word));
  return html`<div class="head"><h1>${t("page.overview")}</h1></div>
    <ul class="cards">
      <${Card} href=${link("gpus")} label=${t("card.gpus")} value=${it.mesosLoaded ? t("of", { part: held, whole: gpus }) : "–"} text=${t("card.gpusText")} />
      <${Card} href=${link("machines")} label=${t("page.machines")} value=${it.mesosLoaded ? it.agents.filter((agent) => agent.active).length : "–"} text=${t("card.machinesText")} />
      <${Card} href=${link("services")} label=${t("page.services")} value=${all.length} text=${t("card.servicesText", { tasks: it.tasks.size })} />
      <${Card} href=${link("deployments")} label=${t("page.deployments")} value=${it.deployments.length} text=${t("card.deploymentsText")} />
    </ul>
    <section class="halves">
      <div>
        <h2>${t("overview.states")}</h2>
        <ul class="plain">
          ${ORDER.filter((word) => all.some((one) => one.word === word)).map((word) => html`<li><a href=${link("services", "", { state: word })}><${State} word=${word} /> ${all.filter((one) => one.word === word).length}</a></li>`)}
        </ul>
        ${it.loaded && all.length === 0 && html`<${Empty} title=${t("services.none")} text=${t("services.noneText")} />`}
      </div>
      <div>
        <h2>${t("overview.trouble")}</h2>
        ${trouble.length === 0 && html`<p class="faint">${t("overview.noTrouble")}</p>`}
        <ul class="plain">
          ${trouble.slice(0, 8).map((one) => html`<li><${State} word=${one.word} /> <a href=${link("services", one.id, { tab: "why" })}><${Name} text=${one.id} /></a><br /><span class="reason">${reason(one)}</span></li>`)}
        </ul>
        <h2>${t("overview.failures")}</h2>
        ${failed.length === 0 && html`<p class="faint">${t("overview.noFailures")}</p>`}
        <ul class="plain">
          ${failed.map((app) => html`<li><a href=${link("services", app.id, { tab: "logs" })}><${Name} text=${app.id} /></a> <${Ago} time=${app.lastTaskFailure.timestamp} /><br /><span class="reason">${app.lastTaskFailure.message || app.lastTaskFailure.state}</span></li>`)}
        </ul>
      </div>
    </section>`;
}

/** @param {{href: string, label: string, value: any, text: string}} props */
function Card({ href, label, value, text }) {
  return html`<li class="card"><a href=${href}><span class="card-label">${label}</span><span class="card-value">${value}</span><span class="card-text">${text}</span></a></li>`;
}
