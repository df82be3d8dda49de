/** A document that is written: checked while it is typed, said before it is sent what it will do, and sent. */
import { ordered } from "../core/diff.js";
import { problemsOf } from "../core/form.js";
import { documentOf, podAsApp } from "../core/owners.js";
import { cardsOf, changePlan } from "../core/plan.js";
import { link } from "../core/route.js";
import { advised, planned } from "../edge/advice.js";
import { ask, ApiError, inPath } from "../edge/api.js";
import { go, notice, reloadJobs, state, t } from "../edge/store.js";
import { runningOf, told } from "../parts/acts.js";
import { plain } from "../core/format.js";
import { Confirm, openDialog } from "../parts/dialog.js";
import { html, useEffect, useRef, useState } from "../parts/html.js";
import { Differences } from "./configuration.js";

/** @typedef {import("../core/types.js").Json} Json */
/** @typedef {"app" | "pod" | "job"} Kind */

/**
 * @param {Kind} kind
 * @param {Json | null} before what is there; null: nothing yet
 * @param {Json} begin
 */
export function useDocument(kind, before, begin) {
  const [document, setDocument] = useState(begin);
  const latest = useRef(begin); // what was typed last may not be drawn yet when something else is typed, or sent
  const [text, setText] = useState(JSON.stringify(begin, null, 2));
  const [broken, setBroken] = useState("");
  const [refused, setRefused] = useState(/** @type {any} */ (null));
  /** @param {(now: Json) => Json} alter */
  const change = (alter) => {
    const next = alter(latest.current);
    latest.current = next;
    setDocument(next);
    setText(JSON.stringify(next, null, 2));
    setBroken("");
  };
  /** @param {string} typed */
  const type = (typed) => {
    setText(typed);
    try {
      const read = JSON.parse(typed);
      if (read === null || typeof read !== "object" || Array.isArray(read)) throw new Error(t("edit.noObject"));
      latest.current = read;
      setDocument(read);
      setBroken("");
    } catch (error) {
      setBroken(error instanceof Error ? error.message : String(error));
    }
  };
  /** @param {boolean} force */
  const save = async (force) => {
    const document = latest.current;
    try {
      await sent(kind, before, document, force);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 422) throw error;
      const advice = await advised(kind, document);
      const body = advice?.problems.length ? advice : error.body;
      setRefused(body);
      const { others, fields } = problemsOf(body);
      throw new ApiError(422, [error.message, ...others, ...Object.values(fields)].join("\n"), error.body);
    }
    const id = kind === "job" || String(document.id).startsWith("/") ? document.id : `/${document.id}`;
    if (kind === "job") await reloadJobs();
    notice(t(kind === "job" ? "edit.kept" : before ? "edit.changed" : "edit.created", { id }));
    go(link("services", id));
  };
  /** @param {Event} event */
  const review = (event) => {
    event.preventDefault();
    setRefused(null);
    const document = latest.current;
    const title = t(before ? "edit.review" : "edit.reviewNew", { id: plain(document.id) });
    openDialog(html`<${Confirm} title=${title} will=${planOf(kind, before, document)} label=${t(before ? "edit.save" : "create")} act=${save}>
      <${Warnings} kind=${kind} document=${document} />
      <${Planned} kind=${kind} document=${document} />
      ${before && html`<${Differences} before=${ordered(documentOf(kind, before))} after=${ordered(document)} version="" />`}
    <//>`);
  };
  return { document, text, broken, change, type, review, found: problemsOf(refused) };
}

/** @param {Kind} kind @param {Json | null} before @param {Json} document @param {boolean} force */
async function sent(kind, before, document, force) {
  const forced = force ? "force=true" : "";
  if (kind === "app" && before) return ask("PUT", `v2/apps/${inPath(before.id)}?partialUpdate=false${force ? "&force=true" : ""}`, { body: document });
  if (kind === "app") return ask("POST", `v2/apps?${forced}`, { body: document });
  if (kind === "pod" && before) return ask("PUT", `v2/pods/${inPath(before.id)}?${forced}`, { body: document });
  if (kind === "pod") return ask("POST", `v2/pods?${forced}`, { body: document });
  // Metronome's own calls keep schedules apart; these take a job with them (api/controllers/ScheduledJobSpecController).
  if (before) return ask("PUT", `v0/scheduled-jobs/${encodeURIComponent(before.id)}`, { body: document });
  return ask("POST", "v0/scheduled-jobs", { body: document });
}

/** What sending it will do. @param {Kind} kind @param {Json | null} before @param {Json} document @returns {string[]} */
function planOf(kind, before, document) {
  if (kind === "job") {
    const schedules = Array.isArray(document.schedules) ? document.schedules.length : 0;
    return [t(before ? "plan.jobChange" : "plan.jobNew"), t(schedules > 0 ? "plan.jobTimed" : "plan.jobUntimed", { count: schedules })];
  }
  const [old, next] = kind === "pod" ? [before && podAsApp(before), podAsApp(document)] : [before && documentOf("app", before), document];
  return told(changePlan(old, next, state.value.agents, before ? runningOf(before.id) : 0));
}

/** What is likely to surprise, as the command line warns. @param {{kind: Kind, document: Json}} props */
function Warnings({ kind, document }) {
  const [advice, setAdvice] = useState(/** @type {import("../edge/advice.js").Advice | null} */ (null));
  useEffect(() => {
    void advised(kind, document).then(setAdvice);
  }, []);
  const said = [...(advice?.problems ?? []).map((one) => [`${one.path}: ${one.message}`, one.advice].filter(Boolean).join(": ")), ...(advice?.warnings ?? [])];
  if (said.length === 0) return null;
  return html`<ul class="advice" lang="en" aria-label=${t("advice.title")}>${said.map((line) => html`<li>△ ${plain(line)}</li>`)}</ul>`;
}

/** Where it would start, and what it would wait for, as `mesos-gpu plan` says. @param {{kind: Kind, document: Json}} props */
function Planned({ kind, document }) {
  const [plan, setPlan] = useState(/** @type {import("../edge/advice.js").Plan | null} */ (null));
  useEffect(() => {
    void planned(kind, document).then(setPlan);
  }, []);
  if (!plan) return null;
  const lines = [
    ...plan.ends.map((one) => t("planned.ends", { app: one.app, count: one.instances, host: one.host })),
    ...(plan.suspends ?? []).map((one) => t("planned.suspends", { app: one.app, count: one.instances, host: one.host })),
    ...plan.starts.map((one) => t("planned.starts", { app: one.app, count: one.instances, host: one.host }) + cardsOf(one).map(([key, values]) => t(key, values)).join("")),
    ...plan.waits.map((one) => `${t("planned.waits", { app: one.app, count: one.instances })}: ${one.for}`),
  ];
  return html`<section class="planned" aria-label=${t("planned.title")}><h3>${t("planned.title")}</h3><p lang="en">${plan.summary}</p>
    <ul>${lines.map((line) => html`<li>${plain(line)}</li>`)}</ul></section>`;
}
