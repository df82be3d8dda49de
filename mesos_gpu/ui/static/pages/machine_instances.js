/** What of Marathon's runs on a machine. */
import { link } from "../core/route.js";
import { shortId } from "../core/format.js";
import { state, t } from "../edge/store.js";
import { Ago, Name } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { Table } from "../parts/table.js";
import { HowItIs } from "./instances.js";

/** @param {{agent: string}} props */
export function Instances({ agent }) {
  const rows = [...state.value.tasks.values()].filter((task) => task.slaveId === agent);
  if (rows.length === 0) return html`<p class="faint">${t("machine.nothing")}</p>`;
  return html`<${Table} caption=${t("tab.instances")} rows=${rows} id=${(/** @type {any} */ task) => task.id} columns=${[
    { key: "app", label: t("col.name"), head: true, sort: (/** @type {any} */ task) => task.appId, cell: (/** @type {any} */ task) => html`<a href=${link("services", task.appId)}><${Name} text=${task.appId} /></a>` },
    { key: "id", label: t("col.instance"), cell: (/** @type {any} */ task) => html`<a href=${link("instances", task.id)}>${shortId(task.id)}</a>` },
    { key: "state", label: t("col.state"), sort: (/** @type {any} */ task) => task.state, cell: (/** @type {any} */ task) => html`<${HowItIs} task=${task} />` },
    { key: "gpus", label: t("col.gpus"), number: true, cell: (/** @type {any} */ task) => state.value.apps.get(task.appId)?.gpus ?? "–" },
    { key: "started", label: t("col.started"), cell: (/** @type {any} */ task) => html`<${Ago} time=${task.startedAt} />` },
  ]} />`;
}
