/** One service: its instances, why it does not run, its configuration, logs, events, endpoints and volumes. */
import { link } from "../core/route.js";
import { memory, trimmed, webLink } from "../core/format.js";
import { allServices, state, t } from "../edge/store.js";
import { remove, resetDelay, restart, runJob, scale, suspend } from "../parts/acts.js";
import { Ago, Copy, Empty, Facts, Name, State, Tabs } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { Configuration } from "./configuration.js";
import { Endpoints, Events, Volumes } from "./service_parts.js";
import { Instances } from "./instances.js";
import { Logs } from "./logs.js";
import { Runs } from "./runs.js";
import { reason } from "./services.js";
import { Why } from "./why.js";

/** @param {{id: string, query: Record<string, string>}} props */
export function Service({ id, query }) {
  const one = allServices.value.find((service) => service.id === id || service.id === id.slice(1));
  if (!one) return state.value.loaded ? html`<${Empty} title=${t("service.none", { id })}><p><a href=${link("services")}>${t("page.services")}</a></p><//>` : html`<p class="faint">${t("loading")}</p>`;
  const app = state.value.apps.get(one.id);
  const sized = app ?? state.value.pods.get(one.id)?.spec;
  const tabs = one.kind === "app" ? ["instances", "why", "configuration", "logs", "events", "endpoints", "volumes"] : one.kind === "pod" ? ["instances", "why", "configuration", "logs", "events"] : ["runs", "configuration", "events"];
  const tab = tabs.includes(query.tab ?? "") ? (query.tab ?? "") : (tabs[0] ?? "");
  const site = webLink(one.labels.HAPROXY_URL ?? one.labels.URL ?? one.labels.DOCS);
  return html`<nav class="crumbs" aria-label=${t("crumbs")}><a href=${link("services")}>${t("page.services")}</a> ›</nav>
    <div class="head">
      <h1><${Name} text=${one.id} /> <${Copy} text=${one.id} label=${t("copy.id")} /></h1>
      <span class="buttons-row">
        ${one.word === "delayed" && html`<button type="button" onClick=${() => resetDelay(one.id)}>${t("resetDelay")}</button>`}
        ${one.kind === "job" && html`<button type="button" class="primary" onClick=${() => runJob(one.id)}>${t("run")}</button>`}
        <a class="button" href=${link("edit", one.id)}>${t("edit")}</a>
        ${sized && html`<button type="button" onClick=${() => scale(sized)}>${t("scale")}</button>`}
        ${app && html`<button type="button" onClick=${() => restart(app)}>${t("restart")}</button>`}
        ${sized && html`<button type="button" onClick=${() => suspend(sized)} disabled=${one.wanted === 0}>${t("suspend")}</button>`}
        <button type="button" class="danger" onClick=${() => remove(one.id, one.kind)}>${t("remove")}</button>
      </span>
    </div>
    <${Facts} rows=${[
      [t("col.state"), html`<${State} word=${one.word} /> <span class="reason">${reason(one)}</span>`],
      [t("col.instances"), one.kind === "job" ? one.running : t("of", { part: one.running, whole: one.wanted })],
      [t("col.gpus"), one.gpus ? `${t("each", { count: one.gpus })} ${one.models.join(", ")}` : t("none")],
      [t("col.cpus"), trimmed(one.cpus)],
      [t("col.memory"), memory(one.mem)],
      ...(one.version ? [[t("col.version"), html`<${Ago} time=${one.version} />`]] : []),
      ...(site ? [[t("site"), html`<a href=${site} rel="noreferrer noopener" target="_blank">${site}</a>`]] : []),
    ]} />
    <${Tabs} label=${t("tabs")} current=${tab} href=${(/** @type {string} */ key) => link("services", one.id, { tab: key })} tabs=${tabs.map((key) => ({ key, label: t(`tab.${key}`) }))} />
    ${tab === "instances" && html`<${Instances} service=${one} />`}
    ${tab === "runs" && html`<${Runs} id=${one.id} />`}
    ${tab === "why" && html`<${Why} id=${one.id} />`}
    ${tab === "configuration" && html`<${Configuration} id=${one.id} kind=${one.kind} query=${query} />`}
    ${tab === "logs" && html`<${Logs} id=${one.id} query=${query} />`}
    ${tab === "events" && html`<${Events} id=${one.id} />`}
    ${tab === "endpoints" && html`<${Endpoints} app=${app} />`}
    ${tab === "volumes" && html`<${Volumes} app=${app} />`}`;
}
