/** Services: apps, pods and jobs, with what each is at and why. */
import { link } from "../core/route.js";
import { ORDER, selected } from "../core/services.js";
import { treeOf } from "../core/tree.js";
import { memory, trimmed } from "../core/format.js";
import { allServices, go, route, state, t } from "../edge/store.js";
import { html } from "../parts/html.js";
import { Empty, Name, State } from "../parts/basics.js";
import { Table } from "../parts/table.js";

/** @typedef {import("../core/types.js").Service} Service */

/** @param {{id: string, query: Record<string, string>}} props */
export function Services({ query }) {
  const all = allServices.value;
  const rows = selected(all, query);
  return html`<div class="head">
      <h1>${t("page.services")}</h1>
      <a class="button primary" href=${link("create")}>${t("create")}</a>
    </div>
    <${Filters} all=${all} query=${query} shown=${rows.length} />
    ${!state.value.loaded ? html`<p class="faint">${t("loading")}</p>` : rows.length > 0 ? query.view === "tree" ? html`<${Tree} group=${treeOf(rows, ORDER)} top />` : html`<${Table} caption=${t("page.services")} columns=${columns()} rows=${rows} id=${(/** @type {Service} */ one) => one.id} />` : all.length > 0 ? html`<${Empty} title=${t("services.noneSelected")} />` : html`<${Empty} title=${t("services.none")} text=${t("services.noneText")}><p><a class="button primary" href=${link("create")}>${t("create")}</a></p><//>`}`;
}

/** A group with what is below it. @param {{group: import("../core/tree.js").Group, top?: boolean}} props */
function Tree({ group, top }) {
  const inside = html`<ul class="tree">
    ${group.groups.map((one) => html`<li key=${one.id}><details open><summary><strong><${Name} text=${one.id} /></strong> <${State} word=${one.word} /> <span class="faint">${t("tree.sum", { count: one.count, gpus: one.gpus })}</span></summary><${Tree} group=${one} /></details></li>`)}
    ${group.services.map((one) => html`<li key=${one.id}><a href=${link("services", one.id)}><${Name} text=${one.id.slice(one.id.lastIndexOf("/") + 1)} full=${one.id} /></a>${one.kind !== "app" && html` <span class="tag">${t(`kind.${one.kind}`)}</span>`} <${State} word=${one.word} />${" "}
      <span class="faint">${one.kind === "job" ? "" : t("of", { part: one.running, whole: one.wanted })}${one.gpus ? ` · ${t("tree.gpus", { gpus: one.gpus })}` : ""}</span></li>`)}
  </ul>`;
  return top ? html`<section aria-label=${t("tree.title")}>${inside}</section>` : inside;
}

/** @returns {import("../parts/table.js").Column[]} */
function columns() {
  return [
    {
      key: "name",
      label: t("col.name"),
      head: true,
      sort: (one) => one.id,
      cell: (one) => html`<a href=${link("services", one.id)}><${Name} text=${one.id} /></a>${one.kind !== "app" && html` <span class="tag">${t(`kind.${one.kind}`)}</span>`}`,
    },
    { key: "state", label: t("col.state"), sort: (one) => ORDER.indexOf(one.word), cell: (one) => html`<${State} word=${one.word} />` },
    { key: "reason", label: t("col.reason"), rank: 2, cell: (one) => html`<span class="reason">${reason(one)}</span>` },
    { key: "instances", label: t("col.instances"), number: true, sort: (one) => one.running, cell: (one) => (one.kind === "job" ? one.running : t("of", { part: one.running, whole: one.wanted })) },
    { key: "gpus", label: t("col.gpus"), number: true, sort: (one) => one.gpus * one.wanted, cell: (one) => (one.gpus ? html`${one.gpus}${one.models.length > 0 && html` <span class="faint">${one.models.join(", ")}</span>`}` : html`<span class="faint">–</span>`) },
    { key: "cpus", label: t("col.cpus"), number: true, rank: 3, sort: (one) => one.cpus, cell: (one) => trimmed(one.cpus) },
    { key: "mem", label: t("col.memory"), number: true, rank: 3, sort: (one) => one.mem, cell: (one) => memory(one.mem) },
  ];
}

/** The sentence that goes with a service's state. @param {Service} one */
export function reason(one) {
  const [key, values] = one.reason;
  return t(key, values.lack ? { ...values, lack: t(`lack.${values.lack}`) } : values);
}

/** @param {{all: Service[], query: Record<string, string>, shown: number}} props */
function Filters({ all, query, shown }) {
  /** @param {string} name @param {string} value */
  const set = (name, value) => go(link("services", "", { ...route.value.query, [name]: value }), true);
  /** @param {string} name */
  const chosen = (name) => (/** @type {any} */ event) => set(name, event.target.value);
  const words = ORDER.filter((word) => all.some((one) => one.word === word) || query.state === word);
  return html`<form class="filters" role="search" onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
    <label class="grow"><span class="unseen">${t("filter.text")}</span><input type="search" placeholder=${t("filter.text")} value=${query.q ?? ""} onInput=${chosen("q")} /></label>
    <label><span class="unseen">${t("col.state")}</span><select value=${query.state ?? ""} onChange=${chosen("state")}>
      <option value="">${t("filter.anyState")}</option>
      ${words.map((word) => html`<option value=${word}>${t(`state.${word}`)} (${all.filter((one) => one.word === word).length})</option>`)}
    </select></label>
    <label><span class="unseen">${t("filter.kind")}</span><select value=${query.kind ?? ""} onChange=${chosen("kind")}>
      <option value="">${t("filter.anyKind")}</option>
      ${["app", "pod", "job"].map((kind) => html`<option value=${kind}>${t(`kinds.${kind}`)}</option>`)}
    </select></label>
    <label class="check"><input type="checkbox" checked=${query.gpu === "1"} onChange=${(/** @type {any} */ e) => set("gpu", e.target.checked ? "1" : "")} />${t("filter.gpu")}</label>
    <button type="button" class="chip" aria-pressed=${query.view === "tree"} onClick=${() => set("view", query.view === "tree" ? "" : "tree")}>${t("tree.title")}</button>
    <span class="faint" role="status">${t("filter.shown", { shown, all: all.length })}</span>
  </form>`;
}
