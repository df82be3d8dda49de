/** What can be done to services: each says before what will happen, and after what did. */
import { changePlan, drainPlan } from "../core/plan.js";
import { definition } from "../core/form.js";
import { link } from "../core/route.js";
import { ask, inPath } from "../edge/api.js";
import { go, notice, state, t } from "../edge/store.js";
import { Confirm, openDialog } from "./dialog.js";
import { html, useState } from "./html.js";

/** @typedef {import("../core/types.js").Json} Json */

/** Sentences of a plan in the reader's language. @param {import("../core/plan.js").Sentence[]} plan @returns {string[]} */
export function told(plan) {
  return plan.map(([key, values]) => t(key, values));
}

/** @param {string} id */
function running(id) {
  return [...state.value.tasks.values()].filter((task) => task.appId === id).length;
}

/** @param {boolean} force */
const forced = (force) => (force ? "?force=true" : "");

/** @param {Json} app */
export function scale(app) {
  openDialog(html`<${Scale} app=${app} />`);
}

/** @param {{app: Json}} props */
function Scale({ app }) {
  const [count, setCount] = useState(String(app.instances));
  const wanted = Number(count);
  const valid = Number.isInteger(wanted) && wanted >= 0 && count !== "";
  const plan = valid ? changePlan(definition(app), { ...definition(app), instances: wanted }, state.value.agents, running(app.id)) : [];
  return html`<${Confirm} title=${t("scale.title", { id: app.id })} will=${told(plan)} label=${t("scale")}
    act=${async (/** @type {boolean} */ force) => {
      if (!valid) throw new Error(t("scale.invalid"));
      await ask("PUT", `v2/apps/${inPath(app.id)}${forced(force)}`, { body: { instances: wanted } });
      notice(t("scale.done", { id: app.id, count: wanted }));
    }}>
    <label class="field">${t("col.instances")}<input type="number" min="0" step="1" value=${count} onInput=${(/** @type {any} */ e) => setCount(e.target.value)} /></label>
  <//>`;
}

/** @param {Json} app */
export function suspend(app) {
  const plan = changePlan(definition(app), { ...definition(app), instances: 0 }, state.value.agents, running(app.id));
  openDialog(html`<${Confirm} title=${t("suspend.title", { id: app.id })} will=${[...told(plan), t("suspend.keeps")]} label=${t("suspend")} danger
    act=${async (/** @type {boolean} */ force) => {
      await ask("PUT", `v2/apps/${inPath(app.id)}${forced(force)}`, { body: { instances: 0 } });
      notice(t("suspend.done", { id: app.id }));
    }} />`);
}

/** @param {Json} app */
export function restart(app) {
  const wanted = { ...definition(app), restarted: true };
  const plan = changePlan(definition(app), wanted, state.value.agents, running(app.id));
  openDialog(html`<${Confirm} title=${t("restart.title", { id: app.id })} will=${told(plan)} label=${t("restart")}
    act=${async (/** @type {boolean} */ force) => {
      await ask("POST", `v2/apps/${inPath(app.id)}/restart${forced(force)}`);
      notice(t("restart.done", { id: app.id }));
    }} />`);
}

/** @param {string} id @param {"app" | "pod" | "job"} kind */
export function remove(id, kind) {
  const count = running(id);
  openDialog(html`<${Confirm} title=${t("remove.title", { id })} will=${[t("remove.ends", { count }), t("remove.forgets")]} label=${t("remove")} danger
    act=${async () => {
      const path = kind === "app" ? `v2/apps/${inPath(id)}` : kind === "pod" ? `v2/pods/${inPath(id)}` : `v1/jobs/${encodeURIComponent(id)}`;
      await ask("DELETE", path);
      notice(t("remove.done", { id }));
      go(link("services"));
    }} />`);
}

/** @param {Json} app @param {string} version @param {Json} old */
export function rollBack(app, version, old) {
  const plan = changePlan(definition(app), definition(old), state.value.agents, running(app.id));
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

/** @param {import("../core/types.js").Agent} agent @param {string} name */
export function drain(agent, name) {
  const plan = drainPlan(agent.id, state.value.tasks.values(), agent);
  openDialog(html`<${Confirm} title=${t("drain.title", { name })} will=${told(plan)} label=${t("drain")} danger
    act=${async () => {
      await ask("POST", "ui/api/master/call", { body: { type: "DRAIN_AGENT", drain_agent: { agent_id: { value: agent.id } } } });
      notice(t("drain.done", { name }));
    }} />`);
}

/** @param {import("../core/types.js").Agent} agent @param {string} name */
export function reactivate(agent, name) {
  openDialog(html`<${Confirm} title=${t("reactivate.title", { name })} will=${[t("reactivate.will")]} label=${t("reactivate")}
    act=${async () => {
      await ask("POST", "ui/api/master/call", { body: { type: "REACTIVATE_AGENT", reactivate_agent: { agent_id: { value: agent.id } } } });
      notice(t("reactivate.done", { name }));
    }} />`);
}
