/** The runs of a job: those that go on and those that have ended, and when it runs next. */
import { shortId } from "../core/format.js";
import { runsOf } from "../core/owners.js";
import { link } from "../core/route.js";
import { get } from "../edge/api.js";
import { usePolled } from "../edge/poll.js";
import { state, t } from "../edge/store.js";
import { stopRun } from "../parts/acts.js";
import { Ago, Empty, State } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { Table } from "../parts/table.js";

/** @typedef {ReturnType<typeof runsOf>[number]} Run */

/** @param {{id: string}} props */
export function Runs({ id }) {
  const job = state.value.jobs.get(id);
  const { value } = usePolled((signal) => get(`v1/jobs/${encodeURIComponent(id)}?embed=history`, { signal }), 3000, [id]);
  const rows = runsOf(job, value?.history);
  const schedules = job?.schedules ?? [];
  return html`${schedules.length > 0 && html`<ul class="plain">${schedules.map((/** @type {any} */ one) => html`<li><code>${one.cron}</code> ${one.timezone ?? "UTC"}${" "}
      ${one.enabled === false ? html`<span class="faint">${t("run.off")}</span>` : one.nextRunAt && html`<span class="faint">${t("run.next", { time: new Date(one.nextRunAt).toLocaleString() })}</span>`}</li>`)}</ul>`}
    ${rows.length === 0 ? html`<${Empty} title=${t("runs.none")} />` : html`<${Table} caption=${t("tab.runs")} rows=${rows} id=${(/** @type {Run} */ one) => one.id} columns=${[
      { key: "id", label: t("col.run"), head: true, cell: (/** @type {Run} */ one) => html`<code>${one.id}</code>` },
      { key: "state", label: t("col.state"), cell: (/** @type {Run} */ one) => html`<${State} word=${one.word} label=${t(one.key)} />` },
      { key: "started", label: t("col.started"), cell: (/** @type {Run} */ one) => html`<${Ago} time=${one.at} />` },
      { key: "ended", label: t("run.ended"), rank: 2, cell: (/** @type {Run} */ one) => html`<${Ago} time=${one.ended} />` },
      { key: "tasks", label: t("col.tasks"), cell: (/** @type {Run} */ one) => one.tasks.map((task) => html`<a href=${link("instances", task, { tab: "stdout" })} title=${task}>${shortId(task)}</a> `) },
      { key: "acts", label: t("col.acts"), cell: (/** @type {Run} */ one) => one.active && html`<button type="button" class="quiet small" onClick=${() => stopRun(id, one.id)} aria-label=${t("run.stopOne", { run: one.id })}>${t("stop")}</button>` },
    ]} />`}`;
}
