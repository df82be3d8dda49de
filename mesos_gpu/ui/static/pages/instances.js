/** The instances of a service. */
import { containersOf } from "../core/owners.js";
import { link } from "../core/route.js";
import { isAway, suspensionOf } from "../core/suspensions.js";
import { millis, shortId } from "../core/format.js";
import { state, t } from "../edge/store.js";
import { kill, killPod } from "../parts/acts.js";
import { Ago, Empty, State } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { Table } from "../parts/table.js";

/** @typedef {import("../core/types.js").Task} Task */

/** Words of our own for states of tasks. @param {Task} task @returns {string} */
export function wordOf(task) {
  if (isAway(task)) return "suspended";
  if (task.state !== "TASK_RUNNING") return task.state === "TASK_KILLING" ? "suspended" : "starting";
  return (task.healthCheckResults ?? []).some((result) => !result.alive) ? "unhealthy" : "running";
}

/** How a task is, as it is shown: Mesos has no state for one that is suspended. @param {Task} task @returns {string} */
export function labelOf(task) {
  return isAway(task) ? t("task.suspended") : t(`task.${task.state}`);
}

/** How a task is, and what is said of its suspension. @param {{task: Task}} props */
export function HowItIs({ task }) {
  return html`<${State} word=${wordOf(task)} label=${labelOf(task)} />${suspensionOf(task).map(([key, values]) => html`<div class="reason">${t(key, values)}</div>`)}`;
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
    { key: "state", label: t("col.state"), sort: (task) => task.state, cell: (task) => html`<${HowItIs} task=${task} />` },
    { key: "host", label: t("col.machine"), sort: (task) => task.host ?? "", cell: (task) => html`<a href=${link("machines", task.slaveId ?? "")}>${task.host ?? "–"}</a>` },
    { key: "ports", label: t("col.ports"), rank: 2, cell: (task) => (task.ports ?? []).join(", ") || "–" },
    { key: "started", label: t("col.started"), sort: (task) => -(millis(task.startedAt ?? task.stagedAt) || 0), cell: (task) => html`<${Ago} time=${task.startedAt ?? task.stagedAt} />` },
    { key: "version", label: t("col.version"), rank: 3, cell: (task) => html`<${Ago} time=${task.version} />` },
    { key: "acts", label: t("col.acts"), cell: (task) => html`<a href=${link("services", task.appId, { tab: "logs", task: task.id })}>${t("tab.logs")}</a> <button type="button" class="quiet small" onClick=${() => kill(task)} aria-label=${t("kill.one", { id: shortId(task.id) })}>${t("kill")}</button>` },
  ];
}

/** The containers of a pod's instances. @param {{id: string}} props */
function PodInstances({ id }) {
  const rows = containersOf(state.value.pods.get(id));
  if (rows.length === 0) return html`<${Empty} title=${t("instances.none")}><p><a href=${link("services", id, { tab: "why" })}>${t("instances.why")}</a></p><//>`;
  /** @typedef {(typeof rows)[number]} Row */
  return html`<${Table} caption=${t("tab.instances")} rows=${rows} id=${(/** @type {Row} */ one) => one.task || one.instance + one.name} sortBy="instance"
    columns=${[
      { key: "id", label: t("col.container"), head: true, cell: (/** @type {Row} */ one) => (one.task ? html`<a href=${link("instances", one.task)} title=${one.task}>${one.name}</a>` : one.name) },
      { key: "instance", label: t("col.instance"), sort: (/** @type {Row} */ one) => one.instance, cell: (/** @type {Row} */ one) => html`<span title=${one.instance}>${shortId(one.instance)}</span>` },
      { key: "state", label: t("col.state"), sort: (/** @type {Row} */ one) => one.state, cell: (/** @type {Row} */ one) => html`<${State} word=${one.state === "TASK_RUNNING" ? (one.status === "DEGRADED" ? "unhealthy" : "running") : "starting"} label=${t(`task.${one.state}`)} />` },
      { key: "host", label: t("col.machine"), cell: (/** @type {Row} */ one) => (one.agent ? html`<a href=${link("machines", one.agent)}>${one.host}</a>` : "–") },
      { key: "since", label: t("col.started"), cell: (/** @type {Row} */ one) => html`<${Ago} time=${one.since} />` },
      { key: "acts", label: t("col.acts"), cell: (/** @type {Row} */ one) => html`<a href=${link("services", id, { tab: "logs", task: one.task })}>${t("tab.logs")}</a> <button type="button" class="quiet small" onClick=${() => killPod(id, one.instance)} aria-label=${t("kill.one", { id: shortId(one.instance) })}>${t("kill")}</button>` },
    ]} />`;
}
