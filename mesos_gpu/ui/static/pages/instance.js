/** One instance: what happened to it, its GPUs, its files and what it writes. */
import { bytes, shortId } from "../core/format.js";
import { ENDED } from "../core/reducer.js";
import { ownerOf } from "../core/owners.js";
import { link } from "../core/route.js";
import { download, get } from "../edge/api.js";
import { filesPath, sandbox } from "../edge/files.js";
import { usePolled } from "../edge/poll.js";
import { go, state, t } from "../edge/store.js";
import { kill, killPod, stopRun } from "../parts/acts.js";
import { Ago, Copy, Empty, Facts, Name, Problem, State, Tabs } from "../parts/basics.js";
import { html } from "../parts/html.js";
import { Log } from "../parts/log.js";
import { Console } from "./console.js";
import { Card } from "./gpus.js";
import { HowItIs } from "./instances.js";
import { TerminalPage } from "./terminal.js";

/** @typedef {import("../core/types.js").Json} Json */

/** @param {{id: string, query: Record<string, string>}} props */
export function Instance({ id: path, query }) {
  const id = path.slice(1);
  const task = state.value.tasks.get(id);
  const mesos = usePolled((signal) => get(`ui/api/master/tasks?task_id=${encodeURIComponent(id)}`, { signal }), 3000, [id, task?.state]);
  const known = mesos.value?.tasks?.find((/** @type {Json} */ one) => one.id === id);
  const agent = task?.slaveId ?? known?.slave_id;
  if (!task && !known) return state.value.loaded && (mesos.value || mesos.error) ? html`<${Empty} title=${t("instance.none", { id })} />` : html`<p class="faint">${t("loading")}</p>`;
  const owner = ownerOf(state.value, id);
  const container = containerOf(known);
  const tabs = ["timeline", "gpus", "files", "stdout", "stderr", ...(container && agent && !ENDED.has(task?.state ?? known?.state) ? ["terminal", "console"] : [])];
  const tab = tabs.includes(query.tab ?? "") ? (query.tab ?? "") : "timeline";
  const now = task?.state ?? known.state;
  return html`<nav class="crumbs" aria-label=${t("crumbs")}><a href=${link("services")}>${t("page.services")}</a> › ${owner && html`<a href=${link("services", owner.id)}><${Name} text=${owner.id} /></a> ›`}</nav>
    <div class="head"><h1><span title=${id}>${shortId(id)}</span> <${Copy} text=${id} label=${t("copy.id")} /></h1>
      ${task && html`<button type="button" class="danger" onClick=${() => kill(task)}>${t("kill")}</button>`}
      ${owner?.kind === "pod" && html`<button type="button" class="danger" onClick=${() => killPod(owner.id, owner.instance)}>${t("kill")}</button>`}
      ${owner?.kind === "job" && !ENDED.has(known?.state) && html`<button type="button" class="danger" onClick=${() => stopRun(owner.id, owner.run)}>${t("stop")}</button>`}</div>
    <${Facts} rows=${[
      [t("col.state"), task ? html`<${HowItIs} task=${task} />` : html`<${State} word=${wordOfState(now)} label=${t(`task.${now}`)} />`],
      [t("col.machine"), html`<a href=${link("machines", agent ?? "")}>${task?.host ?? state.value.agents.find((one) => one.id === agent)?.hostname ?? agent}</a>`],
      [t("col.ports"), (task?.ports ?? []).join(", ") || "–"],
      [t("instance.id"), html`<code>${id}</code>`],
    ]} />
    <${Tabs} label=${t("tabs")} current=${tab} href=${(/** @type {string} */ key) => link("instances", id, { tab: key })} tabs=${tabs.map((key) => ({ key, label: t(`tab.${key}`) }))} />
    ${tab === "timeline" && html`<${Timeline} statuses=${known?.statuses ?? []} id=${id} />`}
    ${tab === "gpus" && agent && html`<${InstanceGpus} agent=${agent} id=${id} />`}
    ${tab === "files" && agent && html`<${Files} agent=${agent} id=${id} query=${query} />`}
    ${tab === "terminal" && html`<${TerminalPage} key=${container?.value} agent=${agent} container=${container} />`}
    ${tab === "console" && html`<${Console} key=${container?.value} agent=${agent} container=${container} />`}
    ${(tab === "stdout" || tab === "stderr") && agent && html`<${Log} sources=${[{ task: id, agent }]} file=${tab} />`}`;
}

/** @param {string} now state of a task that Marathon shows no more, or of a pod or run @returns {string} */
function wordOfState(now) {
  if (now === "TASK_RUNNING") return "running";
  if (!ENDED.has(now)) return "starting";
  return now === "TASK_FINISHED" ? "idle" : "unhealthy";
}

/** Returns the container that a task runs in, by what its statuses say. @param {Json | undefined} task @returns {Json | undefined} */
function containerOf(task) {
  return (task?.statuses ?? []).map((/** @type {Json} */ one) => one.container_status?.container_id).filter(Boolean).at(-1);
}

/** @param {{statuses: Json[], id: string}} props */
function Timeline({ statuses, id }) {
  const seen = state.value.events.filter(({ type, body }) => type === "status_update_event" && body.taskId === id);
  const told = statuses.map((one) => {
    const event = seen.find(({ body }) => body.taskStatus === one.state);
    return { state: one.state, at: one.timestamp, text: one.message ?? event?.body.message ?? "", source: one.source, reason: one.reason };
  });
  for (const { body, at } of seen) {
    if (!told.some((one) => one.state === body.taskStatus)) told.push({ state: body.taskStatus, at, text: body.message ?? "", source: undefined, reason: undefined });
  }
  if (told.length === 0) return html`<${Empty} title=${t("timeline.none")} />`;
  return html`<ol class="timeline">${told.map((one) => html`<li><${State} word=${one.state === "TASK_RUNNING" ? "running" : ENDED.has(one.state) ? (one.state === "TASK_FINISHED" ? "idle" : "unhealthy") : "starting"} label=${t(`task.${one.state}`)} /> <${Ago} time=${one.at} />
    ${(one.text || one.reason) && html`<div class="reason">${[one.text, one.reason, one.source].filter(Boolean).join(" · ")}</div>`}</li>`)}</ol>`;
}

/** @param {{agent: string, id: string}} props */
function InstanceGpus({ agent, id }) {
  const { value, error } = usePolled((signal) => get(`ui/api/agents/${encodeURIComponent(agent)}/gpus`, { signal }), 2000, [agent]);
  if (!value) return error ? html`<${Problem} error=${error} />` : html`<p class="faint">${t("loading")}</p>`;
  const mine = value.filter((/** @type {Json} */ gpu) => gpu.task_id === id);
  if (mine.length === 0) return html`<${Empty} title=${t("instance.noGpus")} />`;
  return html`<ul class="gpus">${mine.map((/** @type {Json} */ gpu) => html`<${Card} key=${gpu.uuid} gpu=${gpu} />`)}</ul>`;
}

/** @param {{agent: string, id: string, query: Record<string, string>}} props */
function Files({ agent, id, query }) {
  const below = query.path ?? "";
  const { value, error } = usePolled(
    async (signal) => {
      const found = await sandbox(agent, id, signal);
      if (!found) throw new Error(t("log.gone", { task: shortId(id) }));
      const path = below ? `${found.directory}/${below}` : found.directory;
      return { root: found.directory, files: await get(filesPath(agent, "browse", path), { signal }) };
    },
    5000,
    [agent, id, below],
  );
  if (!value) return error ? html`<${Problem} error=${error} />` : html`<p class="faint">${t("loading")}</p>`;
  const up = below.includes("/") ? below.replace(/\/[^/]*$/, "") : "";
  /** @param {Json} file */
  const name = (file) => file.path.slice(file.path.lastIndexOf("/") + 1);
  return html`${below && html`<p><a href=${link("instances", id, { tab: "files", path: up })}>↑ ${t("files.up")}</a> <code>${below}</code></p>`}
    <ul class="files plain">${value.files.map((/** @type {Json} */ file) => html`<li><code class="mode">${file.mode}</code>
      ${file.mode.startsWith("d") ? html`<a href=${link("instances", id, { tab: "files", path: below ? `${below}/${name(file)}` : name(file) })}><${Name} text=${name(file)} />/</a>` : html`<button type="button" class="quiet link" onClick=${() => download(filesPath(agent, "download", file.path), name(file))}><${Name} text=${name(file)} /></button>`}
      <span class="faint">${file.mode.startsWith("d") ? "" : bytes(file.size)} · <${Ago} time=${file.mtime} /></span></li>`)}</ul>
    ${value.files.length === 0 && html`<${Empty} title=${t("files.none")} />`}
    <button type="button" onClick=${() => go(link("instances", id, { tab: "stdout" }))}>${t("log.of", { file: "stdout" })}</button>`;
}
