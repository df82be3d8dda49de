/** Create and change an app: a form and its JSON, always in step, and before it is sent what it will do. */
import { formOf, definition, NEW_APP, problemsOf, written } from "../core/form.js";
import { changePlan } from "../core/plan.js";
import { ordered } from "../core/diff.js";
import { link } from "../core/route.js";
import { ask, ApiError, inPath } from "../edge/api.js";
import { go, notice, state, t } from "../edge/store.js";
import { told } from "../parts/acts.js";
import { Confirm, openDialog } from "../parts/dialog.js";
import { Empty } from "../parts/basics.js";
import { html, useState } from "../parts/html.js";
import { Differences } from "./configuration.js";

/** @typedef {import("../core/types.js").Json} Json */

/** */
export function Create() {
  return html`<${Editor} before=${null} begin=${NEW_APP} />`;
}

/** @param {{id: string}} props */
export function Edit({ id }) {
  const app = state.value.apps.get(id);
  if (!app) return state.value.loaded ? html`<${Empty} title=${t("service.none", { id })} />` : html`<p class="faint">${t("loading")}</p>`;
  return html`<${Editor} before=${app} begin=${definition(app)} />`;
}

/** @param {{before: Json | null, begin: Json}} props */
function Editor({ before, begin }) {
  const [document, setDocument] = useState(begin);
  const [text, setText] = useState(JSON.stringify(begin, null, 2));
  const [broken, setBroken] = useState("");
  const [refused, setRefused] = useState(/** @type {any} */ (null));
  const form = formOf(document);
  const found = problemsOf(refused);
  /** @param {Json} next */
  const change = (next) => {
    setDocument(next);
    setText(JSON.stringify(next, null, 2));
    setBroken("");
  };
  /** @param {string} name @param {string} value */
  const set = (name, value) => change(written(document, { ...form, [name]: value }));
  /** @param {string} typed */
  const type = (typed) => {
    setText(typed);
    try {
      const read = JSON.parse(typed);
      if (read === null || typeof read !== "object" || Array.isArray(read)) throw new Error(t("edit.noObject"));
      setDocument(read);
      setBroken("");
    } catch (error) {
      setBroken(error instanceof Error ? error.message : String(error));
    }
  };
  const running = before ? [...state.value.tasks.values()].filter((task) => task.appId === before.id).length : 0;
  /** @param {boolean} force */
  const save = async (force) => {
    try {
      if (before) await ask("PUT", `v2/apps/${inPath(before.id)}?partialUpdate=false${force ? "&force=true" : ""}`, { body: document });
      else await ask("POST", `v2/apps${force ? "?force=true" : ""}`, { body: document });
    } catch (error) {
      if (error instanceof ApiError && error.status === 422) {
        setRefused(error.body);
        throw new Error([error.message, ...problemsOf(error.body).others, ...Object.values(problemsOf(error.body).fields)].join("\n"));
      }
      throw error;
    }
    const id = document.id.startsWith("/") ? document.id : `/${document.id}`;
    notice(t(before ? "edit.changed" : "edit.created", { id }));
    go(link("services", id));
  };
  /** @param {Event} event */
  const review = (event) => {
    event.preventDefault();
    setRefused(null);
    const plan = changePlan(before && definition(before), document, state.value.agents, running);
    openDialog(html`<${Confirm} title=${t(before ? "edit.review" : "edit.reviewNew", { id: document.id })} will=${told(plan)} label=${t(before ? "edit.save" : "create")} act=${save}>
      ${before && html`<${Differences} before=${ordered(definition(before))} after=${ordered(document)} version="" />`}
    <//>`);
  };
  const field = { form, set, problems: found.fields };
  return html`<form onSubmit=${review} novalidate>
    <div class="head"><h1>${before ? t("edit.title", { id: before.id }) : t("edit.new")}</h1>
      <a class="button" href=${before ? link("services", before.id) : link("services")}>${t("cancel")}</a>
      <button class="primary" disabled=${broken !== ""}>${t("edit.next")}</button></div>
    ${found.others.length > 0 && html`<ul class="problem" role="alert">${found.others.map((line) => html`<li>${line}</li>`)}</ul>`}
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
        <${Area} ...${field} name="env" />
        <${Area} ...${field} name="labels" />
      </div>
      <div>
        <h2 id="json-title">JSON</h2>
        <textarea class="code json" aria-labelledby="json-title" aria-describedby="json-problem" aria-invalid=${broken !== ""} spellcheck=${false} value=${text} onInput=${(/** @type {any} */ e) => type(e.target.value)}></textarea>
        <p id="json-problem" class=${broken ? "problem" : "faint"} role="status">${broken || t("edit.inStep")}</p>
      </div>
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
