/** Roles and quota: who may have how much, and who has it. */
import { memory, trimmed } from "../core/format.js";
import { get } from "../edge/api.js";
import { usePolled } from "../edge/poll.js";
import { changes, t } from "../edge/store.js";
import { quota } from "../parts/machine_acts.js";
import { Bar, Empty, Problem } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { Table } from "../parts/table.js";

/** */
export function Roles() {
  const { value, error } = usePolled((signal) => get("ui/api/master/roles", { signal }), 4000, [changes.value]);
  const roles = value?.roles ?? [];
  return html`<div class="head"><h1>${t("page.roles")}</h1><button type="button" onClick=${() => quota(null)}>${t("quota.new")}</button></div>
    ${error && html`<${Problem} error=${error} />`}
    ${!value && !error && html`<p class="faint">${t("loading")}</p>`}
    ${value && roles.length === 0 && html`<${Empty} title=${t("roles.none")} />`}
    ${roles.length > 0 && html`<${Table} caption=${t("page.roles")} rows=${roles} id=${(/** @type {any} */ role) => role.name} columns=${[
      { key: "role", label: t("col.role"), head: true, sort: (/** @type {any} */ role) => role.name, cell: (/** @type {any} */ role) => (role.name === "*" ? t("role.all") : role.name) },
      { key: "weight", label: t("col.weight"), number: true, rank: 2, cell: (/** @type {any} */ role) => trimmed(role.weight ?? 1) },
      ...["gpus", "cpus"].map((name) => ({ key: name, label: t(`col.${name}`), cell: (/** @type {any} */ role) => used(role, name, trimmed) })),
      { key: "mem", label: t("col.memory"), rank: 2, cell: (/** @type {any} */ role) => used(role, "mem", memory) },
      { key: "guarantee", label: t("col.guarantee"), rank: 3, cell: (/** @type {any} */ role) => amounts(role.quota?.guarantee) },
      { key: "frameworks", label: t("page.frameworks"), number: true, cell: (/** @type {any} */ role) => (role.frameworks ?? []).length },
      { key: "acts", label: t("col.acts"), cell: (/** @type {any} */ role) => (role.name === "*" ? "" : html`<button type="button" class="quiet small" aria-label=${t("quota.title", { role: role.name })} onClick=${() => quota(role)}>${t("quota.edit")}</button>`) },
    ]} />`}`;
}

/** @param {any} role @param {string} name @param {(n: number) => string} write */
function used(role, name, write) {
  const taken = role.allocated?.[name] ?? role.resources?.[name] ?? 0;
  const limit = role.quota?.limit?.[name];
  if (limit === undefined) return write(taken);
  return html`<${Bar} used=${taken} total=${limit} text=${`${write(taken)} / ${write(limit)}`} label=${name} warn=${taken >= limit} />`;
}

/** @param {any} all @returns {string} */
function amounts(all) {
  const found = Object.entries(all ?? {}).map(([name, amount]) => `${name} ${amount}`);
  return found.length > 0 ? found.join(", ") : "–";
}
