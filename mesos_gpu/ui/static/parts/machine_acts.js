/** What operators do to machines and roles: each says before what will happen, and after what did. */
import { drainPlan } from "../core/plan.js";
import { machineId, quotaConfig, quotaPlan, QUOTED, rescheduled } from "../core/operate.js";
import { ask, get } from "../edge/api.js";
import { changes, notice, reloadMesos, state, t } from "../edge/store.js";
import { told } from "./acts.js";
import { Confirm, openDialog } from "./dialog.js";
import { html, useState } from "./html.js";

/** @typedef {import("../core/types.js").Json} Json */
/** @typedef {import("../core/types.js").Agent} Agent */

/** @param {Json} call of Mesos' operator API */
async function operate(call) {
  await ask("POST", "ui/api/master/call", { body: call });
  changes.value += 1;
  void reloadMesos();
}

/** @param {Agent} agent @param {string} name */
export function drain(agent, name) {
  const plan = drainPlan(agent.id, state.value.tasks.values(), agent);
  openDialog(html`<${Confirm} title=${t("drain.title", { name })} will=${told(plan)} label=${t("drain")} danger
    act=${async () => {
      await operate({ type: "DRAIN_AGENT", drain_agent: { agent_id: { value: agent.id } } });
      notice(t("drain.done", { name }));
    }} />`);
}

/** @param {Agent} agent @param {string} name */
export function reactivate(agent, name) {
  openDialog(html`<${Confirm} title=${t("reactivate.title", { name })} will=${[t("reactivate.will")]} label=${t("reactivate")}
    act=${async () => {
      await operate({ type: "REACTIVATE_AGENT", reactivate_agent: { agent_id: { value: agent.id } } });
      notice(t("reactivate.done", { name }));
    }} />`);
}

/** @param {Agent} agent @param {string} name */
export function schedule(agent, name) {
  openDialog(html`<${Schedule} machine=${machineId(agent)} agent=${agent} name=${name} />`);
}

/** @param {{machine: Json, agent: Agent, name: string}} props */
function Schedule({ machine, agent, name }) {
  const soon = new Date(Math.ceil(Date.now() / 3600_000) * 3600_000 - new Date().getTimezoneOffset() * 60_000);
  const [start, setStart] = useState(soon.toISOString().slice(0, 16));
  const [hours, setHours] = useState("2");
  const at = new Date(start).getTime();
  const right = Number.isFinite(at) && Number(hours) > 0;
  const same = state.value.agents.filter((one) => machineId(one).hostname === machine.hostname && machineId(one).ip === machine.ip && one.id !== agent.id).length;
  const will = [t("maintenance.will", { name }), t("maintenance.offers"), ...(same > 0 ? [t("maintenance.same", { count: same })] : [])];
  return html`<${Confirm} title=${t("maintenance.title", { name })} will=${right ? will : []} label=${t("maintenance.set")}
    act=${async () => {
      if (!right) throw new Error(t("maintenance.wrong"));
      await setSchedule(machine, { start: at, hours: Number(hours) });
      notice(t("maintenance.done", { name }));
    }}>
    <label class="field">${t("maintenance.start")}<input type="datetime-local" required value=${start} onInput=${(/** @type {any} */ e) => setStart(e.target.value)} /></label>
    <label class="field">${t("maintenance.hours")}<input type="number" min="0.25" step="0.25" value=${hours} onInput=${(/** @type {any} */ e) => setHours(e.target.value)} /></label>
  <//>`;
}

/** The schedule is one document of all machines: it is read anew before it is written. @param {Json} machine @param {{start: number, hours: number} | null} time */
async function setSchedule(machine, time) {
  const now = await get("ui/api/master/maintenance/schedule");
  await operate({ type: "UPDATE_MAINTENANCE_SCHEDULE", update_maintenance_schedule: { schedule: rescheduled(now, machine, time) } });
}

/** @param {Json} machine @param {string} name */
export function unschedule(machine, name) {
  openDialog(html`<${Confirm} title=${t("maintenance.cancelTitle", { name })} will=${[t("maintenance.cancelWill")]} label=${t("maintenance.cancel")}
    act=${async () => {
      await setSchedule(machine, null);
      notice(t("maintenance.cancelDone", { name }));
    }} />`);
}

/** @param {Json} machine @param {string} name */
export function takeDown(machine, name) {
  const here = state.value.agents.filter((one) => machineId(one).hostname === machine.hostname && machineId(one).ip === machine.ip);
  const plans = here.flatMap((agent) => told(drainPlan(agent.id, state.value.tasks.values(), agent)).slice(0, -1));
  openDialog(html`<${Confirm} title=${t("maintenance.downTitle", { name })} will=${[...plans, t("maintenance.downWill")]} label=${t("maintenance.down")} danger
    act=${async () => {
      await operate({ type: "START_MAINTENANCE", start_maintenance: { machines: [machine] } });
      notice(t("maintenance.downDone", { name }));
    }} />`);
}

/** @param {Json} machine @param {string} name */
export function bringUp(machine, name) {
  openDialog(html`<${Confirm} title=${t("maintenance.upTitle", { name })} will=${[t("maintenance.upWill")]} label=${t("maintenance.up")}
    act=${async () => {
      await operate({ type: "STOP_MAINTENANCE", stop_maintenance: { machines: [machine] } });
      notice(t("maintenance.upDone", { name }));
    }} />`);
}

/** @param {Json | null} role as /roles shows it; null: one that is to be named */
export function quota(role) {
  openDialog(html`<${Quota} role=${role} />`);
}

/** @param {{role: Json | null}} props */
function Quota({ role }) {
  const [name, setName] = useState(role?.name ?? "");
  const [limits, setLimits] = useState(typed(role?.quota?.limit));
  const [guarantees, setGuarantees] = useState(typed(role?.quota?.guarantee));
  const [force, setForce] = useState(false);
  const { config, wrong } = quotaConfig(name.trim(), limits, guarantees);
  const plan = wrong.length > 0 || !config.role ? [] : told(quotaPlan(role ?? undefined, config));
  /** @param {string} label @param {Record<string, string>} amounts @param {(next: Record<string, string>) => void} set */
  const fields = (label, amounts, set) => html`<fieldset class="field"><legend>${label}</legend><div class="row">
    ${QUOTED.map((one) => html`<label class="field"><span>${t(`quota.${one}`)}</span><input type="number" min="0" step="any" value=${amounts[one] ?? ""} placeholder=${t("none")} aria-invalid=${wrong.includes(one) ? "true" : undefined} onInput=${(/** @type {any} */ e) => set({ ...amounts, [one]: e.target.value })} /></label>`)}
  </div></fieldset>`;
  return html`<${Confirm} title=${role ? t("quota.title", { role: role.name }) : t("quota.new")} will=${plan} label=${t("quota.set")}
    act=${async () => {
      if (!config.role) throw new Error(t("quota.noRole"));
      if (wrong.length > 0) throw new Error(t("quota.wrong", { names: wrong.join(", ") }));
      await operate({ type: "UPDATE_QUOTA", update_quota: { force, quota_configs: [config] } });
      notice(t("quota.done", { role: config.role }));
    }}>
    ${!role && html`<label class="field">${t("col.role")}<input required value=${name} onInput=${(/** @type {any} */ e) => setName(e.target.value)} /></label>`}
    ${fields(t("quota.limit"), limits, setLimits)}
    ${fields(t("col.guarantee"), guarantees, setGuarantees)}
    <label class="check"><input type="checkbox" checked=${force} onChange=${(/** @type {any} */ e) => setForce(e.target.checked)} />${t("quota.force")}</label>
  <//>`;
}

/** @param {Json | undefined} amounts @returns {Record<string, string>} */
function typed(amounts) {
  return Object.fromEntries(Object.entries(amounts ?? {}).map(([name, amount]) => [name, String(amount?.value ?? amount)]));
}
