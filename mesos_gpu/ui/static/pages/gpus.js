/** GPUs by machine and card: what is held, by whom, and whether it is used. */
import { memory, plain, shortId } from "../core/format.js";
import { IDLE_MINUTES, totals, useOf } from "../core/gpus.js";
import { link } from "../core/route.js";
import { useGpus } from "../edge/gpus.js";
import { go, now, route, state, t } from "../edge/store.js";
import { Ago, Bar, Copy, Empty, lasting, Problem, State } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { History, Processes, Shared, Topology } from "./gpu_parts.js";
import { machineName } from "./machines.js";

/** @typedef {import("../core/types.js").Json} Json */

const WORDS = { free: "idle", held: "running", ill: "unhealthy" };

/** @param {{id: string, query: Record<string, string>}} props */
export function Gpus({ query }) {
  const { machines, idle } = useGpus();
  if (!machines) return html`<div class="head"><h1>${t("page.gpus")}</h1></div><p class="faint">${t("loading")}</p>`;
  const all = machines.flatMap((machine) => machine.gpus ?? []);
  const sum = totals(all);
  /** @param {string} use */
  const pick = (use) => go(link("gpus", "", { ...route.value.query, use }), true);
  return html`<div class="head"><h1>${t("page.gpus")}</h1></div>
    <div class="filters" role="group" aria-label=${t("gpus.filter")}>
      ${["", "held", "free", "ill", "unused"].map((use) => html`<button type="button" class="chip" aria-pressed=${(query.use ?? "") === use} onClick=${() => pick(use)}>${t(`gpus.${use || "all"}`)} ${use === "unused" ? [...idle.values()].filter((one) => long(one.since)).length : use ? /** @type {any} */ (sum)[use] : sum.all}</button>`)}
    </div>
    ${machines.length === 0 && html`<${Empty} title=${t("gpus.none")} text=${t("gpus.noneText")} />`}
    ${machines.map(({ agent, gpus, shared, driver, error }) => {
      const shown = (gpus ?? []).filter((gpu) => (query.use === "unused" ? long(idle.get(gpu.uuid)?.since) : !query.use || useOf(gpu) === query.use));
      if (query.use && shown.length === 0) return null;
      return html`<section class="machine" key=${agent.id}>
        <h2><a href=${link("machines", agent.id)}>${machineName(agent)}</a> <span class="faint">${t("gpus.of", { held: agent.used_resources.gpus ?? 0, all: agent.resources.gpus ?? 0 })}</span></h2>
        ${error && html`<${Problem} error=${error} />`}
        ${gpus === null && !error && html`<p class="faint">${t("gpus.notShown")}</p>`}
        <ul class="gpus">${shown.map((gpu) => html`<${Card} key=${gpu.uuid} gpu=${gpu} since=${idle.get(gpu.uuid)?.since} mig=${driver.get(gpu.uuid)?.mig} />`)}</ul>
        ${!query.use && shared.length > 0 && html`<${Shared} cards=${shared} />`}
        ${!query.use && gpus && driver.size > 1 && html`<${Topology} gpus=${gpus.filter((gpu) => driver.has(gpu.uuid))} driver=${driver} />`}
      </section>`;
    })}`;
}

/** @param {number | undefined} since */
function long(since) {
  return since !== undefined && now.value - since >= IDLE_MINUTES * 60_000;
}

/** @param {{gpu: Json, since?: number, mig?: Json}} props */
export function Card({ gpu, since, mig }) {
  const use = useOf(gpu);
  const task = gpu.task_id;
  const owner = task ? state.value.tasks.get(task) : undefined;
  const total = gpu.memory_total_mib ?? 0;
  return html`<li class=${`gpu gpu-${use}`}>
    <p class="gpu-head"><strong>${t("gpu.index", { index: gpu.index })}</strong> <span>${plain(gpu.name)}</span> <${State} word=${WORDS[use]} label=${t(`use.${use}`)} /></p>
    ${use === "ill" && html`<p class="problem">${plain(gpu.reason ?? gpu.condition)}${gpu.xid !== undefined && ` (XID ${gpu.xid})`}${gpu.since && html` · <${Ago} time=${gpu.since} />`}</p>`}
    <p>${owner ? html`<a href=${link("services", owner.appId)}>${plain(owner.appId)}</a> <a href=${link("instances", task)}>${shortId(task)}</a>` : task ? plain(shortId(task)) : gpu.holder ? plain(gpu.holder) : gpu.container_id ? shortId(gpu.container_id) : gpu.shared ? t("gpu.shared", { count: (gpu.sharers ?? []).length }) : html`<span class="faint">${t("gpu.nobody")}</span>`}</p>
    <dl class="meters">
      <dt>${t("gpu.busy")}</dt><dd>${number(gpu.utilization_percent, "%", 100, t("gpu.busy"))}</dd>
      <dt>${t("col.memory")}</dt><dd><${Bar} used=${gpu.memory_used_mib ?? 0} total=${total} text=${`${memory(gpu.memory_used_mib ?? NaN)} / ${memory(total)}`} label=${t("col.memory")} /></dd>
      <dt>${t("gpu.temperature")}</dt><dd>${gpu.temperature_c ?? "–"} °C</dd>
      <dt>${t("gpu.power")}</dt><dd>${gpu.power_w ?? "–"} W</dd>
    </dl>
    ${since !== undefined && use === "held" && now.value - since > 60_000 && html`<p class=${long(since) ? "state-waiting" : "faint"}>${long(since) ? "△ " : ""}${t("gpu.idleFor", { time: lasting((now.value - since) / 1000) })}</p>`}
    ${mig && html`<p>${t("gpu.mig", { gi: mig.gpu_instance, ci: mig.compute_instance })} <code class="uuid">${mig.parent_uuid}</code></p>`}
    <${Processes} list=${gpu.processes ?? []} />
    <${History} past=${gpu.history ?? []} />
    <p class="faint uuid"><code>${gpu.uuid}</code> <${Copy} text=${gpu.uuid} label=${t("copy.uuid")} /></p>
  </li>`;
}

/** @param {number | undefined} value @param {string} unit @param {number} most @param {string} label */
function number(value, unit, most, label) {
  if (value === undefined) return "–";
  return html`<${Bar} used=${value} total=${most} text=${`${value} ${unit}`} label=${label} />`;
}
