/** Machines: what each has, by role, what is taken, and whether it takes more. */
import { memory, trimmed } from "../core/format.js";
import { link } from "../core/route.js";
import { state, t } from "../edge/store.js";
import { drain, reactivate, schedule } from "../parts/machine_acts.js";
import { Ago, Bar, Empty, Facts, Name, State } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { Table } from "../parts/table.js";
import { Instances } from "./machine_instances.js";
import { Maintenance } from "./maintenance.js";

/** @typedef {import("../core/types.js").Agent} Agent */

/** What to call a machine: its name, with the port where several share one. @param {Agent} agent @returns {string} */
export function machineName(agent) {
  const same = state.value.agents.filter((one) => one.hostname === agent.hostname).length;
  return same > 1 ? `${agent.hostname}:${agent.pid.split(":").at(-1)}` : agent.hostname;
}

/** @param {Agent} agent @returns {[string, string]} word of a state, and key of what it is called */
function stateOf(agent) {
  if (!agent.active) return ["delayed", "machine.away"];
  if (agent.drain_info) return agent.drain_info.state === "DRAINED" ? ["suspended", "machine.drained"] : ["deploying", "machine.draining"];
  if (agent.deactivated) return ["suspended", "machine.deactivated"];
  return ["running", "machine.active"];
}

/** @param {{id: string, query: Record<string, string>}} props */
export function Machines({ id }) {
  const agents = state.value.agents;
  if (id) {
    const agent = agents.find((one) => `/${one.id}` === id);
    if (agent) return html`<${Machine} agent=${agent} />`;
    return state.value.mesosLoaded ? html`<${Empty} title=${t("machine.none", { id: id.slice(1) })} />` : html`<p class="faint">${t("loading")}</p>`;
  }
  return html`<div class="head"><h1>${t("page.machines")}</h1></div>
    ${!state.value.mesosLoaded ? html`<p class="faint">${t("loading")}</p>` : agents.length === 0 ? html`<${Empty} title=${t("machines.none")} text=${t("machines.noneText")} />` : html`<${Table} caption=${t("page.machines")} rows=${agents} id=${(/** @type {Agent} */ one) => one.id} columns=${columns()} />`}
    <${Maintenance} />`;
}

/** @returns {import("../parts/table.js").Column[]} */
function columns() {
  /** @param {string} name @param {(n: number) => string} write */
  const share = (name, write) => (/** @type {Agent} */ agent) => {
    const [used, total] = [agent.used_resources[name] ?? 0, agent.resources[name] ?? 0];
    return total ? html`<${Bar} used=${used} total=${total} text=${`${write(used)} / ${write(total)}`} label=${name} />` : html`<span class="faint">–</span>`;
  };
  return [
    { key: "name", label: t("col.machine"), head: true, sort: machineName, cell: (agent) => html`<a href=${link("machines", agent.id)}><${Name} text=${machineName(agent)} /></a>` },
    { key: "state", label: t("col.state"), sort: (agent) => stateOf(agent)[1], cell: (agent) => html`<${State} word=${stateOf(agent)[0]} label=${t(stateOf(agent)[1])} />` },
    { key: "gpus", label: t("col.gpus"), sort: (agent) => agent.resources.gpus ?? 0, cell: share("gpus", trimmed) },
    { key: "cpus", label: t("col.cpus"), rank: 2, sort: (agent) => agent.resources.cpus ?? 0, cell: share("cpus", trimmed) },
    { key: "mem", label: t("col.memory"), rank: 3, sort: (agent) => agent.resources.mem ?? 0, cell: share("mem", memory) },
    { key: "model", label: t("col.model"), rank: 3, sort: (agent) => agent.attributes?.gpu_model ?? "", cell: (agent) => agent.attributes?.gpu_model ?? "–" },
  ];
}

/** @param {{agent: Agent}} props */
function Machine({ agent }) {
  const name = machineName(agent);
  const [word, key] = stateOf(agent);
  const roles = [["*", agent.unreserved_resources ?? agent.resources], ...Object.entries(agent.reserved_resources ?? {})];
  return html`<nav class="crumbs" aria-label=${t("crumbs")}><a href=${link("machines")}>${t("page.machines")}</a> ›</nav>
    <div class="head"><h1><${Name} text=${name} /></h1><span class="buttons-row">
      <button type="button" onClick=${() => schedule(agent, name)}>${t("maintenance.plan")}</button>
      ${agent.deactivated || agent.drain_info ? html`<button type="button" onClick=${() => reactivate(agent, name)}>${t("reactivate")}</button>` : html`<button type="button" class="danger" onClick=${() => drain(agent, name)}>${t("drain")}</button>`}
    </span></div>
    <${Facts} rows=${[
      [t("col.state"), html`<${State} word=${word} label=${t(key)} />`],
      [t("machine.id"), html`<code>${agent.id}</code>`],
      [t("col.address"), agent.pid.split("@")[1]],
      [t("machine.version"), agent.version ?? "–"],
      [t("machine.since"), html`<${Ago} time=${agent.registered_time} />`],
    ]} />
    <${Maintenance} agent=${agent} />
    <section class="block"><h2>${t("machine.roles")}</h2>
      <${Table} caption=${t("machine.roles")} rows=${roles} id=${(/** @type {any} */ row) => row[0]} columns=${[
        { key: "role", label: t("col.role"), head: true, cell: (/** @type {any} */ row) => (row[0] === "*" ? t("role.all") : row[0]) },
        ...["gpus", "cpus"].map((one) => ({ key: one, label: t(`col.${one}`), number: true, cell: (/** @type {any} */ row) => trimmed(row[1][one] ?? 0) })),
        { key: "mem", label: t("col.memory"), number: true, cell: (/** @type {any} */ row) => memory(row[1].mem ?? 0) },
        { key: "disk", label: t("col.disk"), number: true, cell: (/** @type {any} */ row) => memory(row[1].disk ?? 0) },
      ]} />
    </section>
    ${Object.keys(agent.attributes ?? {}).length > 0 && html`<section class="block"><h2>${t("machine.attributes")}</h2><${Facts} rows=${Object.entries(agent.attributes ?? {}).map(([one, value]) => [one, String(value)])} /></section>`}
    <section class="block"><h2>${t("tab.instances")}</h2><${Instances} agent=${agent.id} /></section>`;
}
