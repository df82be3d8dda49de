/** When machines are to be worked on, and those that are now. */
import { machineId, sameMachine, windowsOf } from "../core/operate.js";
import { get } from "../edge/api.js";
import { usePolled } from "../edge/poll.js";
import { changes, t } from "../edge/store.js";
import { bringUp, takeDown, unschedule } from "../parts/machine_acts.js";
import { Name, State } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { Table } from "../parts/table.js";

/** @typedef {ReturnType<typeof windowsOf>[number]} Window */

/** Of one machine, or of all; nothing where there is none. @param {{agent?: import("../core/types.js").Agent}} props */
export function Maintenance({ agent }) {
  const { value } = usePolled(
    async (signal) => ({ schedule: await get("ui/api/master/maintenance/schedule", { signal }), status: await get("ui/api/master/maintenance/status", { signal }) }),
    4000,
    [agent?.id, changes.value],
  );
  const all = windowsOf(value?.schedule ?? null, value?.status ?? null);
  const rows = agent ? all.filter((one) => sameMachine(one.machine, machineId(agent))) : all;
  if (rows.length === 0) return null;
  /** @param {Window} one */
  const nameOf = (one) => one.machine.hostname || one.machine.ip;
  return html`<section class="block"><h2>${t("maintenance.heading")}</h2>
    <${Table} caption=${t("maintenance.heading")} rows=${rows} id=${(/** @type {Window} */ one) => `${one.machine.hostname} ${one.machine.ip}`} columns=${[
      { key: "machine", label: t("col.machine"), head: true, cell: (/** @type {Window} */ one) => html`<${Name} text=${nameOf(one)} />` },
      { key: "state", label: t("col.state"), cell: (/** @type {Window} */ one) => html`<${State} word=${one.down ? "suspended" : "deploying"} label=${t(one.down ? "maintenance.isDown" : "maintenance.planned")} />` },
      { key: "start", label: t("maintenance.start"), cell: (/** @type {Window} */ one) => new Date(one.start).toLocaleString() },
      { key: "end", label: t("maintenance.end"), cell: (/** @type {Window} */ one) => (one.end === null ? "–" : new Date(one.end).toLocaleString()) },
      { key: "acts", label: t("col.acts"), cell: (/** @type {Window} */ one) => one.down
        ? html`<button type="button" class="small" onClick=${() => bringUp(one.machine, nameOf(one))}>${t("maintenance.up")}</button>`
        : html`<button type="button" class="small" onClick=${() => unschedule(one.machine, nameOf(one))}>${t("maintenance.cancel")}</button> <button type="button" class="small danger" onClick=${() => takeDown(one.machine, nameOf(one))}>${t("maintenance.down")}</button>` },
    ]} />
  </section>`;
}
