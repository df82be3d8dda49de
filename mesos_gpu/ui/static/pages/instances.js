/** The instances of a service. */
import { link } from "../core/route.js";
import { millis, shortId } from "../core/format.js";
import { state, t } from "../edge/store.js";
import { kill } from "../parts/acts.js";
import { Ago, Empty, State } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { Table } from "../parts/table.js";

/** @typedef {import("../core/types.js").Task} Task */

/** Words of our own for states of tasks. @param {Task} task @returns {string} */
export function wordOf(task) {
  if (task.state !== "TASK_RUNNING") return task.state === "TASK_KILLING" ? "suspended" : "starting";
  return (task.healthCheckResults ?? []).some((result) => !result.alive) ? "unhealthy" : "running";
}

/** @param {{service: import("../core/types.js").Service}} props */
export function Instances({ service }) {
  if (service.kind === "pod") return html`<${PodInstances} id=${service.id} />`;
  const rows = [...state.value.tasks.values()].filter((task) => task.appId === service.id);
  if (rows.length === 0) return html`<${Empty} title=${t("instances.none")}><p><a href=${link("services", service.id, { tab: "why" })}>${t("instances.why")}</a></p><//>`;
  return html`<${Table} caption=${t("tab.instances")} columns=${columns()} rows=${rows} id=${(/** @type {Task} */ task) => task.id} sortBy="started" />`;
}

/** @returns {import("../parts/table.js").Column[]} */
function columns() {
  return [
    { key: "id", label: t("col.instance"), head: true, cell: (task) => html`<a href=${link("instances", task.id)} title=${task.id}>${shortId(task.id)}</a>` },
    { key: "state", label: t("col.state"), sort: (task) => task.state, cell: (task) => html`<${State} word=${wordOf(task)} label=${t(`task.${task.state}`)} />` },
    { key: "host", label: t("col.machine"), sort: (task) => task.host ?? "", cell: (task) => html`<a href=${link("machines", task.slaveId ?? "")}>${task.host ?? "–"}</a>` },
    { key: "ports", label: t("col.ports"), rank: 2, cell: (task) => (task.ports ?? []).join(", ") || "–" },
    { key: "started", label: t("col.started"), sort: (task) => -(millis(task.startedAt ?? task.stagedAt) || 0), cell: (task) => html`<${Ago} time=${task.startedAt ?? task.stagedAt} />` },
    { key: "version", label: t("col.version"), rank: 3, cell: (task) => html`<${Ago} time=${task.version} />` },
    { key: "acts", label: t("col.acts"), cell: (task) => html`<a href=${link("services", task.appId, { tab: "logs", task: task.id })}>${t("tab.logs")}</a> <button type="button" class="quiet small" onClick=${() => kill(task)} aria-label=${t("kill.one", { id: shortId(task.id) })}>${t("kill")}</button>` },
  ];
}

/** @param {{id: string}} props */
function PodInstances({ id }) {
  const rows = state.value.pods.get(id)?.instances ?? [];
  if (rows.length === 0) return html`<${Empty} title=${t("instances.none")} />`;
  return html`<${Table} caption=${t("tab.instances")} rows=${rows} id=${(/** @type {any} */ one) => one.id}
    columns=${[
      { key: "id", label: t("col.instance"), head: true, cell: (/** @type {any} */ one) => html`<span title=${one.id}>${shortId(one.id)}</span>` },
      { key: "state", label: t("col.state"), cell: (/** @type {any} */ one) => html`<${State} word=${one.status === "STABLE" ? "running" : one.status === "DEGRADED" ? "unhealthy" : "starting"} label=${one.status} />` },
      { key: "host", label: t("col.machine"), cell: (/** @type {any} */ one) => one.agentHostname ?? "–" },
      { key: "containers", label: t("col.containers"), cell: (/** @type {any} */ one) => (one.containers ?? []).map((/** @type {any} */ c) => `${c.name}: ${c.status}`).join(", ") },
      { key: "since", label: t("col.started"), cell: (/** @type {any} */ one) => html`<${Ago} time=${one.statusSince} />` },
    ]} />`;
}
