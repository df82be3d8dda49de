/** What can be done to services: each says before what will happen, and after what did. */
import { changePlan } from "../core/plan.js";
import { definition } from "../core/form.js";
import { documentOf, podAsApp } from "../core/owners.js";
import { link } from "../core/route.js";
import { ask, inPath } from "../edge/api.js";
import { go, notice, reloadJobs, state, t } from "../edge/store.js";
import { Confirm, openDialog } from "./dialog.js";
import { html, useState } from "./html.js";

/** @typedef {import("../core/types.js").Json} Json */

/** Sentences of a plan in the reader's language. @param {import("../core/plan.js").Sentence[]} plan @returns {string[]} */
export function told(plan) {
  return plan.map(([key, values]) => t(key, values));
}

/** How many instances an app or pod has now. @param {string} id @returns {number} */
export function runningOf(id) {
  const pod = state.value.pods.get(id);
  if (pod) return (pod.instances ?? []).length;
  return [...state.value.tasks.values()].filter((task) => task.appId === id).length;
}

/** @param {boolean} force */
const forced = (force) => (force ? "?force=true" : "");

/** What scaling changes: an app's number, or a pod's whole definition. @param {Json} one @param {number} count @param {boolean} force */
function scaled(one, count, force) {
  if (!isPod(one)) return ask("PUT", `v2/apps/${inPath(one.id)}${forced(force)}`, { body: { instances: count } });
  const body = { ...documentOf("pod", one), scaling: { ...one.scaling, kind: "fixed", instances: count } };
  return ask("PUT", `v2/pods/${inPath(one.id)}${forced(force)}`, { body });
}

/** @param {Json} one an app, or a pod's spec */
function isPod(one) {
  return Array.isArray(one.containers);
}

/** @param {Json} one @returns {Json} it in an app's words */
function asApp(one) {
  return isPod(one) ? podAsApp(one) : definition(one);
}

/** @param {Json} one an app, or a pod's spec */
export function scale(one) {
  openDialog(html`<${Scale} one=${one} />`);
}

/** @param {{one: Json}} props */
function Scale({ one }) {
  const now = asApp(one);
  const [count, setCount] = useState(String(now.instances));
  const wanted = Number(count);
  const valid = Number.isInteger(wanted) && wanted >= 0 && count !== "";
  const plan = valid ? changePlan(now, { ...now, instances: wanted }, state.value.agents, runningOf(one.id)) : [];
  return html`<${Confirm} title=${t("scale.title", { id: one.id })} will=${told(plan)} label=${t("scale")}
    act=${async (/** @type {boolean} */ force) => {
      if (!valid) throw new Error(t("scale.invalid"));
      await scaled(one, wanted, force);
      notice(t("scale.done", { id: one.id, count: wanted }));
    }}>
    <label class="field">${t("col.instances")}<input type="number" min="0" step="1" value=${count} onInput=${(/** @type {any} */ e) => setCount(e.target.value)} /></label>
  <//>`;
}

/** @param {Json} one an app, or a pod's spec */
export function suspend(one) {
  const now = asApp(one);
  const plan = changePlan(now, { ...now, instances: 0 }, state.value.agents, runningOf(one.id));
  openDialog(html`<${Confirm} title=${t("suspend.title", { id: one.id })} will=${[...told(plan), t("suspend.keeps")]} label=${t("suspend")} danger
    act=${async (/** @type {boolean} */ force) => {
      await scaled(one, 0, force);
      notice(t("suspend.done", { id: one.id }));
    }} />`);
}

/** @param {Json} app */
export function restart(app) {
  const wanted = { ...definition(app), restarted: true };
  const plan = changePlan(definition(app), wanted, state.value.agents, runningOf(app.id));
  openDialog(html`<${Confirm} title=${t("restart.title", { id: app.id })} will=${told(plan)} label=${t("restart")}
    act=${async (/** @type {boolean} */ force) => {
      await ask("POST", `v2/apps/${inPath(app.id)}/restart${forced(force)}`);
      notice(t("restart.done", { id: app.id }));
    }} />`);
}

/** @param {string} id @param {"app" | "pod" | "job"} kind */
export function remove(id, kind) {
  const runs = (state.value.jobs.get(id)?.activeRuns ?? []).length;
  const will = kind === "job" ? [...(runs > 0 ? [t("remove.stops", { count: runs })] : []), t("remove.forgetsJob")] : [t("remove.ends", { count: runningOf(id) }), t("remove.forgets")];
  openDialog(html`<${Confirm} title=${t("remove.title", { id })} will=${will} label=${t("remove")} danger
    act=${async (/** @type {boolean} */ force) => {
      if (kind === "job") await ask("DELETE", `v1/jobs/${encodeURIComponent(id)}${runs > 0 ? "?stopCurrentJobRuns=true" : ""}`);
      else await ask("DELETE", `v2/${kind}s/${inPath(id)}${forced(force)}`);
      notice(t("remove.done", { id }));
      if (kind === "job") void reloadJobs();
      go(link("services"));
    }} />`);
}

/** @param {string} id of a job */
export function runJob(id) {
  const job = state.value.jobs.get(id) ?? {};
  const plan = changePlan(null, { ...job.run, instances: 1 }, state.value.agents, 0);
  openDialog(html`<${Confirm} title=${t("run.title", { id })} will=${told(plan)} label=${t("run")}
    act=${async () => {
      const run = await ask("POST", `v1/jobs/${encodeURIComponent(id)}/runs`);
      notice(t("run.done", { id, run: run?.id ?? "" }));
      void reloadJobs();
    }} />`);
}

/** @param {string} id of a job @param {string} run */
export function stopRun(id, run) {
  openDialog(html`<${Confirm} title=${t("run.stopTitle", { id })} will=${[t("run.stopWill", { run })]} label=${t("stop")} danger
    act=${async () => {
      await ask("POST", `v1/jobs/${encodeURIComponent(id)}/runs/${encodeURIComponent(run)}/actions/stop`);
      notice(t("run.stopDone", { run }));
      void reloadJobs();
    }} />`);
}

/** @param {string} id of a pod @param {string} instance */
export function killPod(id, instance) {
  openDialog(html`<${Confirm} title=${t("kill.title")} will=${[t("kill.pod", { id: instance }), t("kill.replaces")]} label=${t("kill")} danger
    act=${async () => {
      await ask("DELETE", `v2/pods/${inPath(id)}::instances/${encodeURIComponent(instance)}`);
      notice(t("kill.done", { id: instance }));
    }} />`);
}

/** @param {Json} app @param {string} version @param {Json} old */
export function rollBack(app, version, old) {
  const plan = changePlan(definition(app), definition(old), state.value.agents, runningOf(app.id));
  openDialog(html`<${Confirm} title=${t("rollBack.title", { version })} will=${told(plan)} label=${t("rollBack")}
    act=${async (/** @type {boolean} */ force) => {
      await ask("PUT", `v2/apps/${inPath(app.id)}${forced(force)}`, { body: { version } });
      notice(t("rollBack.done", { id: app.id, version }));
    }} />`);
}

/** @param {string} id */
export async function resetDelay(id) {
  try {
    await ask("DELETE", `v2/queue/${inPath(id)}/delay`);
    notice(t("resetDelay.done", { id }));
  } catch (error) {
    notice(String(error instanceof Error ? error.message : error), true);
  }
}

/** @param {import("../core/types.js").Task} task */
export function kill(task) {
  openDialog(html`<${Kill} task=${task} />`);
}

/** @param {{task: import("../core/types.js").Task}} props */
function Kill({ task }) {
  const [scaled, setScaled] = useState(false);
  return html`<${Confirm} title=${t("kill.title")} will=${[t("kill.ends", { id: task.id }), t(scaled ? "kill.scales" : "kill.replaces")]} label=${t("kill")} danger
    act=${async (/** @type {boolean} */ force) => {
      const query = `?scale=${scaled}${force ? "&force=true" : ""}`;
      await ask("DELETE", `v2/apps/${inPath(task.appId)}/tasks/${encodeURIComponent(task.id)}${query}`);
      notice(t("kill.done", { id: task.id }));
    }}>
    <label class="check"><input type="checkbox" checked=${scaled} onChange=${(/** @type {any} */ e) => setScaled(e.target.checked)} />${t("kill.scale")}</label>
  <//>`;
}

/** @param {import("../core/types.js").Deployment} deployment */
export function stopDeployment(deployment) {
  const names = [...deployment.affectedApps, ...(deployment.affectedPods ?? [])].join(", ");
  openDialog(html`<${StopDeployment} id=${deployment.id} names=${names} />`);
}

/** @param {{id: string, names: string}} props */
function StopDeployment({ id, names }) {
  const [back, setBack] = useState(true);
  return html`<${Confirm} title=${t("stop.title")} will=${[t(back ? "stop.back" : "stop.stay", { names })]} label=${t("stop")} danger
    act=${async () => {
      await ask("DELETE", `v2/deployments/${id}${back ? "" : "?force=true"}`);
      notice(t("stop.done", { names }));
    }}>
    <label class="check"><input type="checkbox" checked=${back} onChange=${(/** @type {any} */ e) => setBack(e.target.checked)} />${t("stop.lead")}</label>
  <//>`;
}
