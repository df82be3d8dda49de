/** Events, endpoints and volumes of a service. */
import { millis, shortId } from "../core/format.js";
import { state, t } from "../edge/store.js";
import { Ago, Copy, Empty } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { Table } from "../parts/table.js";

/** @typedef {import("../core/types.js").Seen} Seen */

/** What happened, in a line. @param {Seen} seen @returns {string} */
export function eventText({ type, body }) {
  const parts = [];
  if (body.taskStatus ?? body.condition) parts.push(body.taskStatus ?? body.condition);
  if (body.taskId ?? body.instanceId) parts.push(shortId(body.taskId ?? body.instanceId));
  if (body.message) parts.push(body.message);
  if (type.startsWith("deployment_")) parts.push(body.id ?? body.plan?.id ?? "");
  return parts.join(" · ");
}

/** @param {{id: string}} props */
export function Events({ id }) {
  const rows = state.value.events.filter(({ body }) => [body.appId, body.runSpecId, body.appDefinition?.id].includes(id) || JSON.stringify(body.plan?.steps ?? "").includes(`"${id}"`)).reverse();
  if (rows.length === 0) return html`<${Empty} title=${t("events.none")} text=${t("events.noneText")} />`;
  return html`<${EventTable} rows=${rows} />`;
}

/** @param {{rows: Seen[]}} props */
export function EventTable({ rows }) {
  return html`<${Table} caption=${t("tab.events")} rows=${rows} id=${(/** @type {Seen} */ one) => String(one.number)}
    columns=${[
      { key: "at", label: t("col.time"), sort: (/** @type {Seen} */ one) => -millis(one.at), cell: (/** @type {Seen} */ one) => html`<${Ago} time=${one.at} />` },
      { key: "type", label: t("col.event"), head: true, sort: (/** @type {Seen} */ one) => one.type, cell: (/** @type {Seen} */ one) => html`<code>${one.type}</code>` },
      { key: "reason", label: t("col.what"), cell: (/** @type {Seen} */ one) => html`<span class="reason">${eventText(one)}</span>` },
    ]} />`;
}

/** @param {{app: any}} props */
export function Endpoints({ app }) {
  const rows = [...state.value.tasks.values()]
    .filter((task) => task.appId === app.id)
    .flatMap((task) => (task.ports ?? []).map((port, i) => ({ task, address: `${task.host}:${port}`, name: (app.portDefinitions ?? app.container?.portMappings ?? [])[i]?.name ?? "–" })));
  if (rows.length === 0) return html`<${Empty} title=${t("endpoints.none")} />`;
  return html`<${Table} caption=${t("tab.endpoints")} rows=${rows} id=${(/** @type {any} */ one) => one.task.id + one.address}
    columns=${[
      { key: "address", label: t("col.address"), head: true, cell: (/** @type {any} */ one) => html`<code>${one.address}</code> <${Copy} text=${one.address} label=${t("copy.address")} />` },
      { key: "port", label: t("col.port"), cell: (/** @type {any} */ one) => one.name },
      { key: "instance", label: t("col.instance"), cell: (/** @type {any} */ one) => shortId(one.task.id) },
    ]} />`;
}

/** @param {{app: any}} props */
export function Volumes({ app }) {
  const rows = app.container?.volumes ?? [];
  if (rows.length === 0) return html`<${Empty} title=${t("volumes.none")} />`;
  return html`<${Table} caption=${t("tab.volumes")} rows=${rows} id=${(/** @type {any} */ one) => one.containerPath}
    columns=${[
      { key: "path", label: t("col.path"), head: true, cell: (/** @type {any} */ one) => html`<code>${one.containerPath}</code>` },
      { key: "from", label: t("col.from"), cell: (/** @type {any} */ one) => one.hostPath ?? (one.persistent ? t("volume.persistent", { size: one.persistent.size }) : one.external ? one.external.name : one.secret ?? "–") },
      { key: "mode", label: t("col.mode"), cell: (/** @type {any} */ one) => one.mode ?? "–" },
    ]} />`;
}
