/** Create and change apps, pods and jobs: an app in a form and as JSON, always in step; pods and jobs as JSON. */
import { formOf, NEW_APP, written } from "../core/form.js";
import { plain } from "../core/format.js";
import { documentOf, NEW } from "../core/owners.js";
import { link } from "../core/route.js";
import { go, state, t } from "../edge/store.js";
import { Empty } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { useDocument } from "./edit_document.js";

/** @typedef {import("../core/types.js").Json} Json */
/** @typedef {"app" | "pod" | "job"} Kind */

const KINDS = /** @type {Kind[]} */ (["app", "pod", "job"]);

/** @param {{query: Record<string, string>}} props */
export function Create({ query }) {
  const kind = KINDS.find((one) => one === query.kind) ?? "app";
  const choice = html`<fieldset class="field kinds"><legend>${t("edit.kind")}</legend>
    ${KINDS.map((one) => html`<label class="check"><input type="radio" name="kind" value=${one} checked=${one === kind} onChange=${() => go(link("create", "", { kind: one }), true)} />${t(`kind.${one}`)}</label>`)}
  </fieldset>`;
  if (kind === "app") return html`<${Editor} key="app" before=${null} begin=${NEW_APP} choice=${choice} />`;
  return html`<${JsonEditor} key=${kind} kind=${kind} before=${null} begin=${NEW[kind] ?? {}} choice=${choice} />`;
}

/** @param {{id: string}} props */
export function Edit({ id }) {
  const { apps, pods, jobs, loaded } = state.value;
  const app = apps.get(id);
  if (app) return html`<${Editor} before=${app} begin=${documentOf("app", app)} />`;
  const [kind, before] = pods.has(id) ? /** @type {const} */ (["pod", pods.get(id)?.spec]) : /** @type {const} */ (["job", jobs.get(id.slice(1))]);
  if (before) return html`<${JsonEditor} kind=${kind} before=${before} begin=${documentOf(kind, before)} />`;
  return loaded ? html`<${Empty} title=${t("service.none", { id })} />` : html`<p class="faint">${t("loading")}</p>`;
}

/** @param {{before: Json | null, broken: string, others: string[]}} props */
function Head({ before, broken, others }) {
  return html`<div class="head"><h1>${before ? t("edit.title", { id: plain(before.id) }) : t("edit.new")}</h1>
      <a class="button" href=${before ? link("services", before.id) : link("services")}>${t("cancel")}</a>
      <button class="primary" disabled=${broken !== ""}>${t("edit.next")}</button></div>
    ${others.length > 0 && html`<ul class="problem" role="alert">${others.map((line) => html`<li>${plain(line)}</li>`)}</ul>`}`;
}

/** @param {{text: string, type: (typed: string) => void, broken: string, note: string}} props */
function JsonField({ text, type, broken, note }) {
  return html`<h2 id="json-title">JSON</h2>
    <textarea class="code json" aria-labelledby="json-title" aria-describedby="json-problem" aria-invalid=${broken !== ""} spellcheck=${false} value=${text} onInput=${(/** @type {any} */ e) => type(e.target.value)}></textarea>
    <p id="json-problem" class=${broken ? "problem" : "faint"} role="status">${broken || note}</p>`;
}

/** @param {{kind: Kind, before: Json | null, begin: Json, choice?: any}} props */
function JsonEditor({ kind, before, begin, choice }) {
  const { text, broken, type, review, found } = useDocument(kind, before, begin);
  const others = [...found.others, ...Object.entries(found.fields).map(([name, line]) => `/${name}: ${line}`)];
  return html`<form onSubmit=${review} novalidate>
    <${Head} before=${before} broken=${broken} others=${others} />
    ${choice}
    <${JsonField} text=${text} type=${type} broken=${broken} note=${t(`edit.${kind}Text`)} />
  </form>`;
}

/** @param {{before: Json | null, begin: Json, choice?: any}} props */
function Editor({ before, begin, choice }) {
  const { document, text, broken, change, type, review, found } = useDocument("app", before, begin);
  const form = formOf(document);
  /** @param {string} name @param {string} value */
  const set = (name, value) => change((now) => written(now, { ...formOf(now), [name]: value }));
  const field = { form, set, problems: found.fields };
  return html`<form onSubmit=${review} novalidate>
    <${Head} before=${before} broken=${broken} others=${found.others} />
    ${choice}
    <div class="halves">
      <div class="form">
        <h2>${t("edit.form")}</h2>
        <${Field} ...${field} name="id" required disabled=${before !== null} />
        <${Runtime} ...${field} />
        ${form.runtime !== "none" && html`<${Field} ...${field} name="image" placeholder="nvidia/cuda:12.4.1-base-ubuntu22.04" />`}
        <${Area} ...${field} name="cmd" />
        <div class="row">
          <${Field} ...${field} name="instances" number />
          <${Field} ...${field} name="cpus" number step="any" />
          <${Field} ...${field} name="mem" number step="any" />
        </div>
        <div class="row">
          <${Field} ...${field} name="gpus" number disabled=${form.runtime === "DOCKER"} hint=${form.runtime === "DOCKER" ? t("edit.gpusDocker") : undefined} />
          <${Models} ...${field} />
        </div>
        <div class="row">
          <${Field} ...${field} name="gangSize" number hint=${t("edit.gangSize")} />
          <${Field} ...${field} name="priority" number />
        </div>
        <${Area} ...${field} name="env" />
        <${Area} ...${field} name="labels" />
      </div>
      <div><${JsonField} text=${text} type=${type} broken=${broken} note=${t("edit.inStep")} /></div>
    </div>
  </form>`;
}

/** @typedef {{form: Json, set: (name: string, value: string) => void, problems: Record<string, string>}} Shared */

/** @param {Shared & {name: string, number?: boolean, step?: string, required?: boolean, disabled?: boolean, placeholder?: string, hint?: string}} props */
function Field({ form, set, problems, name, number, step, required, disabled, placeholder, hint }) {
  const problem = problems[name];
  const about = `${name}-about`;
  return html`<label class="field"><span>${t(`field.${name}`)}</span>
    <input name=${name} type=${number ? "number" : "text"} min=${number ? "0" : undefined} step=${step} required=${required} disabled=${disabled} placeholder=${placeholder} value=${form[name]} aria-invalid=${problem ? "true" : undefined} aria-describedby=${problem || hint ? about : undefined} onInput=${(/** @type {any} */ e) => set(name, e.target.value)} />
    ${(problem || hint) && html`<span id=${about} class=${problem ? "state-unhealthy" : "faint"}>${problem ?? hint}</span>`}
  </label>`;
}

/** @param {Shared & {name: string}} props */
function Area({ form, set, problems, name }) {
  const problem = problems[name];
  return html`<label class="field"><span>${t(`field.${name}`)}</span>
    <textarea class="code" name=${name} rows=${name === "cmd" ? 3 : 2} spellcheck=${false} value=${form[name]} aria-invalid=${problem ? "true" : undefined} onChange=${name === "cmd" ? undefined : (/** @type {any} */ e) => set(name, e.target.value)} onInput=${name === "cmd" ? (/** @type {any} */ e) => set(name, e.target.value) : undefined}></textarea>
    ${problem && html`<span class="state-unhealthy">${problem}</span>`}
  </label>`;
}

/** @param {Shared} props */
function Runtime({ form, set }) {
  return html`<fieldset class="field"><legend>${t("field.runtime")}</legend>
    ${["none", "MESOS", "DOCKER"].map((one) => html`<label class="check"><input type="radio" name="runtime" value=${one} checked=${form.runtime === one} onChange=${() => set("runtime", one)} />${t(`runtime.${one}`)}</label>`)}
  </fieldset>`;
}

/** @param {Shared} props */
function Models({ form, set, problems }) {
  const there = [...new Set(state.value.agents.map((agent) => agent.attributes?.gpu_model).filter(Boolean))];
  const all = form.gpuModel && !there.includes(form.gpuModel) ? [...there, form.gpuModel] : there;
  return html`<label class="field"><span>${t("field.gpuModel")}</span>
    <select name="gpuModel" value=${form.gpuModel} onChange=${(/** @type {any} */ e) => set("gpuModel", e.target.value)}>
      <option value="">${t("field.anyModel")}</option>${all.map((model) => html`<option value=${model}>${model}</option>`)}
    </select>
    ${problems.gpuModel && html`<span class="state-unhealthy">${problems.gpuModel}</span>`}
  </label>`;
}
