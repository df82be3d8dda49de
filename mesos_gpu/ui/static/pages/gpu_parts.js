/** What more there is to a GPU: who uses it, what happened to it, who shares it, and how it reaches the others. */
import { memory, plain, shortId } from "../core/format.js";
import { linkWord, sharedUnits } from "../core/gpus.js";
import { link } from "../core/route.js";
import { t } from "../edge/store.js";
import { Ago, Bar, State } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { Table } from "../parts/table.js";

/** @typedef {import("../core/types.js").Json} Json */

/** Processes on a GPU, by the driver's word; those of tasks lead there. @param {{list: Json[]}} props */
export function Processes({ list }) {
  if (list.length === 0) return null;
  return html`<details><summary>${t("gpu.processes", { count: list.length })}</summary>
    <ul class="plain">${list.map((one) => html`<li key=${one.pid}><code>${plain(one.name || "?")}</code> <span class="faint">${t("gpu.pid", { pid: one.pid })}</span> ${memory(one.memory_mib)}${" "}
      ${one.task_id ? html`<a href=${link("instances", one.task_id)}>${shortId(one.task_id)}</a>` : html`<span class="state-waiting">${t("gpu.foreign")}</span>`}</li>`)}</ul>
  </details>`;
}

/** What has happened to a GPU, the latest first. @param {{past: Json[]}} props */
export function History({ past }) {
  if (past.length === 0) return null;
  return html`<details><summary>${t("gpu.history", { count: past.length })}</summary>
    <ol class="timeline">${[...past].reverse().map((one) => html`<li><${State} word=${one.condition === "healthy" ? "running" : one.condition === "suspect" ? "waiting" : "unhealthy"} label=${t(`condition.${one.condition}`)} /> <${Ago} time=${one.at} />
      <div class="reason">${plain(one.reason)}${one.xid !== undefined && ` (XID ${one.xid})`}</div></li>`)}</ol>
  </details>`;
}

/** Cards that several containers share. @param {{cards: Json[]}} props */
export function Shared({ cards }) {
  return html`<h3>${t("shared.title")}</h3>
    ${cards.map((card) => {
      const { given, all } = sharedUnits(card);
      return html`<section class="sheet shared" key=${card.uuid}>
        <p class="gpu-head"><strong>${t("gpu.index", { index: card.index })}</strong> <span>${t("shared.policy", { policy: t(`policy.${card.policy}`), most: card.max_inst ?? "–" })}</span> <span>${t("shared.level", { level: card.memory_level ?? "–" })}</span></p>
        <p><${Bar} used=${given} total=${all} text=${t("shared.units", { given, all })} label=${t("col.memory")} /></p>
        ${(card.containers ?? []).length === 0 ? html`<p class="faint">${t("gpu.nobody")}</p>` : html`<${Table} caption=${t("shared.of", { index: card.index })} rows=${card.containers} id=${(/** @type {Json} */ one) => one.container_id} columns=${[
          { key: "task", label: t("col.instance"), head: true, cell: (/** @type {Json} */ one) => (one.task_id ? html`<a href=${link("instances", one.task_id)}>${shortId(one.task_id)}</a>` : shortId(one.container_id)) },
          { key: "units", label: t("col.memory"), cell: (/** @type {Json} */ one) => html`<${Bar} used=${one.memory_used_mib ?? 0} total=${one.memory_mib} text=${`${memory(one.memory_used_mib ?? NaN)} / ${memory(one.memory_mib)}`} label=${t("col.memory")} warn=${(one.memory_used_mib ?? 0) > one.memory_mib} />` },
          { key: "weight", label: t("col.weight"), number: true, cell: (/** @type {Json} */ one) => one.weight },
          { key: "level", label: t("col.memory_level"), cell: (/** @type {Json} */ one) => one.memory_level ?? card.memory_level ?? "–" },
        ]} />`}
        <p class="faint uuid"><code>${card.uuid}</code></p>
      </section>`;
    })}`;
}

/** How each pair of GPUs is connected. @param {{gpus: Json[], driver: Map<string, Json>}} props */
export function Topology({ gpus, driver }) {
  return html`<details class="topology"><summary>${t("topology.title")}</summary>
    <div class="table-frame" role="region" tabindex="0" aria-label=${t("topology.title")}>
    <table><caption class="unseen">${t("topology.title")}</caption>
      <thead><tr><th scope="col"><span class="unseen">GPU</span></th>${gpus.map((gpu) => html`<th scope="col" key=${gpu.uuid}>${gpu.index}</th>`)}</tr></thead>
      <tbody>${gpus.map((one) => html`<tr key=${one.uuid}><th scope="row">${t("gpu.index", { index: one.index })}</th>
        ${gpus.map((other) => html`<td key=${other.uuid}>${one === other ? "·" : linkWord(driver.get(one.uuid)?.links?.[other.uuid])}</td>`)}</tr>`)}</tbody>
    </table></div>
    <p class="faint">${t("topology.text")}</p>
  </details>`;
}
