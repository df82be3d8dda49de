/** What the instances of an app or pod write: all of them, one, or the last one that failed. */
import { containersOf } from "../core/owners.js";
import { link } from "../core/route.js";
import { shortId } from "../core/format.js";
import { go, state, t } from "../edge/store.js";
import { Ago, Empty } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { Log } from "../parts/log.js";

const FAILED = "failed";
const MOST = 8;

/** @param {{id: string, query: Record<string, string>}} props */
export function Logs({ id, query }) {
  const app = state.value.apps.get(id);
  /** @type {{id: string, slaveId: string, label: string}[]} */
  const tasks = app
    ? [...state.value.tasks.values()].filter((task) => task.appId === id && task.slaveId).map((task) => ({ id: task.id, slaveId: task.slaveId ?? "", label: shortId(task.id) }))
    : containersOf(state.value.pods.get(id)).filter((one) => one.task && one.agent).map((one) => ({ id: one.task, slaveId: one.agent, label: `${shortId(one.instance)} ${one.name}` }));
  const failure = app?.lastTaskFailure?.slaveId ? app.lastTaskFailure : null;
  const chosen = query.task ?? (tasks.length === 0 && failure ? FAILED : "");
  const file = query.file === "stderr" ? "stderr" : query.file === "stdout" ? "stdout" : chosen === FAILED ? "stderr" : "stdout";
  const sources =
    chosen === FAILED && failure
      ? [{ task: failure.taskId, agent: failure.slaveId }]
      : tasks.filter((task) => !chosen || task.id === chosen).map((task) => ({ task: task.id, agent: task.slaveId }));
  /** @param {Record<string, string>} changes */
  const set = (changes) => go(link("services", id, { tab: "logs", task: chosen, file, ...changes }), true);
  if (sources.length === 0 && !failure) return html`<${Empty} title=${t("logs.none")} text=${t("logs.noneText")} />`;
  return html`<div class="filters">
      <label>${t("col.instance")} <select value=${chosen} onChange=${(/** @type {any} */ e) => set({ task: e.target.value, file: "" })}>
        <option value="">${t("logs.all", { count: tasks.length })}</option>
        ${tasks.map((task) => html`<option value=${task.id}>${task.label}</option>`)}
        ${failure && html`<option value=${FAILED}>${t("logs.failed", { id: shortId(failure.taskId) })}</option>`}
      </select></label>
      <label>${t("logs.file")} <select value=${file} onChange=${(/** @type {any} */ e) => set({ file: e.target.value })}>
        <option value="stdout">stdout</option><option value="stderr">stderr</option>
      </select></label>
      ${chosen === FAILED && failure && html`<span class="reason">${failure.message || failure.state} · <${Ago} time=${failure.timestamp} /></span>`}
    </div>
    ${sources.length > MOST && html`<p class="faint">${t("logs.most", { count: MOST })}</p>`}
    ${sources.length > 0 ? html`<${Log} sources=${sources.slice(0, MOST)} file=${file} />` : html`<${Empty} title=${t("logs.none")} text=${t("logs.noneText")} />`}`;
}
