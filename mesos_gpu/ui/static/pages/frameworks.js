/** Frameworks: who schedules on this cluster, by the v1 API or by a driver. */
import { trimmed, memory, webLink } from "../core/format.js";
import { get } from "../edge/api.js";
import { usePolled } from "../edge/poll.js";
import { t } from "../edge/store.js";
import { Ago, Name, Problem, State } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { Table } from "../parts/table.js";

/** */
export function Frameworks() {
  const { value, error } = usePolled((signal) => get("ui/api/master/frameworks", { signal }), 5000, []);
  const rows = value?.frameworks ?? [];
  return html`<div class="head"><h1>${t("page.frameworks")}</h1></div>
    ${error && html`<${Problem} error=${error} />`}
    ${!value && !error && html`<p class="faint">${t("loading")}</p>`}
    ${rows.length > 0 && html`<${Table} caption=${t("page.frameworks")} rows=${rows} id=${(/** @type {any} */ one) => one.id} columns=${[
      { key: "name", label: t("col.name"), head: true, sort: (/** @type {any} */ one) => one.name, cell: (/** @type {any} */ one) => (webLink(one.webui_url) ? html`<a href=${webLink(one.webui_url)} rel="noreferrer noopener"><${Name} text=${one.name} /></a>` : html`<${Name} text=${one.name} />`) },
      { key: "state", label: t("col.state"), cell: (/** @type {any} */ one) => html`<${State} word=${one.connected === false || !one.active ? "delayed" : "running"} label=${t(one.connected === false ? "framework.away" : one.active ? "framework.active" : "framework.inactive")} />` },
      { key: "wire", label: t("col.wire"), rank: 2, cell: (/** @type {any} */ one) => (one.pid ? t("framework.v0") : t("framework.v1")) },
      { key: "roles", label: t("page.roles"), rank: 2, cell: (/** @type {any} */ one) => (one.roles ?? [one.role]).join(", ") },
      { key: "tasks", label: t("col.tasks"), number: true, cell: (/** @type {any} */ one) => (one.tasks ?? []).length },
      { key: "gpus", label: t("col.gpus"), number: true, cell: (/** @type {any} */ one) => trimmed(one.used_resources?.gpus ?? 0) },
      { key: "cpus", label: t("col.cpus"), number: true, rank: 3, cell: (/** @type {any} */ one) => trimmed(one.used_resources?.cpus ?? 0) },
      { key: "mem", label: t("col.memory"), number: true, rank: 3, cell: (/** @type {any} */ one) => memory(one.used_resources?.mem ?? 0) },
      { key: "since", label: t("col.since"), rank: 3, cell: (/** @type {any} */ one) => html`<${Ago} time=${one.registered_time} />` },
    ]} />`}`;
}
