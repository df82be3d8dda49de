/** Whose a task is, and what pods and jobs have: instances, containers, runs. */
import { definition } from "./form.js";

/** @typedef {import("./types.js").Json} Json */
/** @typedef {import("./types.js").State} State */

/** What Marathon adds to a job when it shows one, and to its schedules. */
const JOB_SHOWN_ONLY = ["activeRuns", "history", "historySummary"];
const SCHEDULE_SHOWN_ONLY = ["nextRunAt"];

/** What a pod and a job begin as. @type {Record<string, Json>} */
export const NEW = {
  pod: {
    id: "/",
    scaling: { kind: "fixed", instances: 1 },
    containers: [{ name: "main", exec: { command: { shell: "" } }, resources: { cpus: 0.1, mem: 128, gpus: 0 } }],
  },
  job: { id: "", run: { cmd: "", cpus: 0.1, mem: 128, disk: 0, gpus: 0 }, schedules: [] },
};

/**
 * @typedef {{kind: "app" | "pod" | "job", id: string, instance: string, run: string}} Owner
 * @param {State} state
 * @param {string} taskId
 * @returns {Owner | null} null for a task that nobody here knows
 */
export function ownerOf(state, taskId) {
  const task = state.tasks.get(taskId);
  if (task && state.apps.has(task.appId)) return { kind: "app", id: task.appId, instance: "", run: "" };
  for (const pod of state.pods.values()) {
    for (const instance of pod.instances ?? []) {
      if ((instance.containers ?? []).some((/** @type {Json} */ one) => one.containerId === taskId)) {
        return { kind: "pod", id: pod.id, instance: instance.id, run: "" };
      }
    }
  }
  const named = /^(.+)_(\d{14}\w+)\.instance-/.exec(taskId);
  const job = named && [...state.jobs.keys()].find((id) => id.replaceAll(".", "_") === named[1] || id === named[1]);
  return job ? { kind: "job", id: job, instance: "", run: named?.[2] ?? "" } : null;
}

/**
 * Returns the containers of a pod's instances, each with its task.
 * @param {Json | undefined} pod a PodStatus
 * @returns {{task: string, agent: string, host: string, name: string, state: string, since: string, instance: string, status: string, gpus: number}[]}
 */
export function containersOf(pod) {
  return (pod?.instances ?? []).flatMap((/** @type {Json} */ instance) =>
    (instance.containers ?? []).map((/** @type {Json} */ one) => ({
      task: one.containerId ?? "",
      agent: instance.agentId ?? "",
      host: instance.agentHostname ?? "",
      name: one.name,
      state: one.status,
      since: one.statusSince ?? instance.statusSince,
      instance: instance.id,
      status: instance.status,
      gpus: one.resources?.gpus ?? 0,
    })),
  );
}

/**
 * Returns the runs of a job, those that go on first, then the latest.
 * @param {Json | undefined} job with its active runs
 * @param {Json | undefined} history of /v1/jobs/JOB?embed=history
 * @returns {{id: string, word: "running" | "starting" | "idle" | "unhealthy", key: string, at: string, ended: string, tasks: string[], active: boolean}[]}
 */
export function runsOf(job, history) {
  const active = (job?.activeRuns ?? []).map((/** @type {Json} */ run) => ({
    id: run.id,
    word: run.status === "ACTIVE" ? "running" : "starting",
    key: run.status === "ACTIVE" ? "run.active" : "run.starting",
    at: run.createdAt,
    ended: "",
    tasks: (run.tasks ?? []).map((/** @type {Json} */ one) => one.id),
    active: true,
  }));
  /** @param {Json[] | undefined} runs @param {string} word @param {string} key */
  const over = (runs, word, key) => (runs ?? []).map((run) => ({ id: run.id, word, key, at: run.createdAt, ended: run.finishedAt, tasks: run.tasks ?? [], active: false }));
  const ended = [...over(history?.successfulFinishedRuns, "idle", "run.finished"), ...over(history?.failedFinishedRuns, "unhealthy", "run.failed")];
  const known = new Set(active.map((/** @type {Json} */ one) => one.id));
  return [...active, ...ended.filter((one) => !known.has(one.id)).sort((a, b) => (a.ended < b.ended ? 1 : -1))];
}

/**
 * Returns what can be sent back of what Marathon shows.
 * @param {"app" | "pod" | "job"} kind
 * @param {Json} shown of a pod: its spec
 * @returns {Json}
 */
export function documentOf(kind, shown) {
  if (kind === "app") return definition(shown);
  /** @param {Json} one @param {string[]} keys */
  const without = (one, keys) => Object.fromEntries(Object.entries(one).filter(([key]) => !keys.includes(key)));
  if (kind === "pod") return without(shown, ["version"]);
  const job = without(shown, JOB_SHOWN_ONLY);
  return job.schedules ? { ...job, schedules: job.schedules.map((/** @type {Json} */ one) => without(one, SCHEDULE_SHOWN_ONLY)) } : job;
}

/**
 * Returns a pod's definition in an app's words, for plans: sums over its containers.
 * @param {Json} spec
 * @returns {Json}
 */
export function podAsApp(spec) {
  /** @param {string} name */
  const sum = (name) => (spec.containers ?? []).reduce((/** @type {number} */ all, /** @type {Json} */ one) => all + (one.resources?.[name] ?? 0), spec.executorResources?.[name] ?? 0);
  const { scaling, version: _, ...rest } = spec;
  return { ...rest, instances: scaling?.instances ?? 1, cpus: sum("cpus"), mem: sum("mem"), disk: sum("disk"), gpus: sum("gpus"), upgradeStrategy: spec.scheduling?.upgrade };
}
