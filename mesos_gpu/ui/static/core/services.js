/** Apps, pods and jobs in the same words: how each is, and why. */
import { ENDED } from "./reducer.js";

/** @typedef {import("./types.js").State} State */
/** @typedef {import("./types.js").Service} Service */
/** @typedef {import("./types.js").Json} Json */
/** @typedef {import("./types.js").Task} Task */

/** How a state is told beside its word and colour. */
export const SHAPES = {
  running: "●",
  starting: "◐",
  deploying: "◔",
  waiting: "◇",
  delayed: "△",
  suspended: "■",
  unhealthy: "✚",
  idle: "○",
};

/** From the one that needs somebody to the one that does not. */
export const ORDER = ["delayed", "unhealthy", "waiting", "deploying", "starting", "running", "idle", "suspended"];

/**
 * Returns all services, by id.
 * @param {State} state
 * @returns {Service[]}
 */
export function services(state) {
  const deploying = new Map();
  for (const deployment of state.deployments) {
    for (const id of [...(deployment.affectedApps ?? []), ...(deployment.affectedPods ?? [])]) deploying.set(id, deployment);
  }
  const running = counts(state.tasks.values());
  const found = [
    ...[...state.apps.values()].map((app) => appService(app, state.queue.get(app.id), deploying.get(app.id), running.get(app.id))),
    ...[...state.pods.values()].map((pod) => podService(pod, state.queue.get(pod.id), deploying.get(pod.id))),
    ...[...state.jobs.values()].map(jobService),
  ];
  return found.sort((a, b) => (a.id < b.id ? -1 : 1));
}

/**
 * @typedef {{running: number, staged: number, healthy: number, unhealthy: number}} Counts
 * @param {Iterable<Task>} tasks
 * @returns {Map<string, Counts>} by app
 */
function counts(tasks) {
  /** @type {Map<string, Counts>} */
  const found = new Map();
  for (const task of tasks) {
    if (ENDED.has(task.state)) continue;
    let sum = found.get(task.appId);
    if (!sum) found.set(task.appId, (sum = { running: 0, staged: 0, healthy: 0, unhealthy: 0 }));
    if (task.state === "TASK_RUNNING") sum.running++;
    else sum.staged++;
    const results = task.healthCheckResults ?? [];
    if (results.length > 0) results.every((result) => result.alive) ? sum.healthy++ : sum.unhealthy++;
  }
  return found;
}

/**
 * @param {Json} app
 * @param {Json | undefined} queued
 * @param {Json | undefined} deployment
 * @param {Counts | undefined} sum
 * @returns {Service}
 */
export function appService(app, queued, deployment, sum = { running: 0, staged: 0, healthy: 0, unhealthy: 0 }) {
  const wanted = app.instances ?? 0;
  const [word, reason] = judged({ wanted, ...sum }, queued, deployment, app.lastTaskFailure);
  return {
    id: app.id,
    kind: "app",
    word,
    reason,
    wanted,
    running: sum.running,
    healthy: sum.healthy,
    unhealthy: sum.unhealthy,
    gpus: app.gpus ?? 0,
    models: wantedModels(app.constraints ?? []),
    cpus: app.cpus ?? 0,
    mem: app.mem ?? 0,
    version: app.version ?? "",
    labels: app.labels ?? {},
  };
}

/**
 * @param {Json} pod a PodStatus of /v2/pods/::status
 * @param {Json | undefined} queued
 * @param {Json | undefined} deployment
 * @returns {Service}
 */
function podService(pod, queued, deployment) {
  const spec = pod.spec ?? {};
  const wanted = spec.scaling?.instances ?? 1;
  const instances = pod.instances ?? [];
  const running = instances.filter((/** @type {Json} */ one) => one.status === "STABLE").length;
  const staged = instances.length - running;
  const [word, reason] = judged({ wanted, running, staged, healthy: 0, unhealthy: 0 }, queued, deployment, undefined);
  /** @param {string} name */
  const sum = (name) => (spec.containers ?? []).reduce((/** @type {number} */ all, /** @type {Json} */ one) => all + (one.resources?.[name] ?? 0), 0);
  return {
    id: pod.id,
    kind: "pod",
    word,
    reason,
    wanted,
    running,
    healthy: 0,
    unhealthy: 0,
    gpus: sum("gpus"),
    models: wantedModels(spec.scheduling?.placement?.constraints ?? []),
    cpus: sum("cpus"),
    mem: sum("mem"),
    version: spec.version ?? "",
    labels: spec.labels ?? {},
  };
}

/** @param {Json} job with its active runs @returns {Service} */
function jobService(job) {
  const runs = (job.activeRuns ?? []).length;
  const run = job.run ?? {};
  return {
    id: job.id,
    kind: "job",
    word: runs > 0 ? "running" : "idle",
    reason: runs > 0 ? ["why.jobRuns", { count: runs }] : ["why.jobIdle", {}],
    wanted: runs,
    running: runs,
    healthy: 0,
    unhealthy: 0,
    gpus: run.gpus ?? 0,
    models: [],
    cpus: run.cpus ?? 0,
    mem: run.mem ?? 0,
    version: "",
    labels: job.labels ?? {},
  };
}

/**
 * @param {Counts & {wanted: number}} sum
 * @param {Json | undefined} queued
 * @param {Json | undefined} deployment
 * @param {Json | undefined} failure
 * @returns {[import("./types.js").Word, [string, Record<string, any>]]}
 */
function judged(sum, queued, deployment, failure) {
  const left = queued?.delay?.timeLeftSeconds ?? 0;
  const message = failure?.message || failure?.state || "";
  if (left > 0) return ["delayed", message ? ["why.delayedAfter", { message }] : ["why.delayed", {}]];
  if (queued) {
    const lacks = topReason(queued);
    const count = queued.count ?? 1;
    if (lacks) return ["waiting", ["why.lacks", { count, lack: lacks }]];
    if ((queued.processedOffersSummary?.processedOffersCount ?? 0) > 0) return ["waiting", ["why.noOffer", { count }]];
    return ["waiting", ["why.waits", { count }]];
  }
  if (deployment) return ["deploying", ["why.step", { step: deployment.currentStep, steps: deployment.totalSteps }]];
  if (sum.wanted === 0) return ["suspended", ["why.suspended", {}]];
  if (sum.unhealthy > 0) return ["unhealthy", ["why.unhealthy", { count: sum.unhealthy }]];
  if (sum.running < sum.wanted) return ["starting", ["why.starting", { running: sum.running, wanted: sum.wanted }]];
  return ["running", ["why.all", { count: sum.running }]];
}

/**
 * Returns what the latest offers lacked most, as a reason of Marathon's (NoOfferMatchReason.scala); null for nothing.
 * @param {Json} queued
 * @returns {string | null}
 */
export function topReason(queued) {
  const steps = queued.processedOffersSummary?.rejectSummaryLastOffers ?? [];
  let top = null;
  for (const step of steps) if (step.declined > 0 && (top === null || step.declined > top.declined)) top = step;
  return top?.reason ?? null;
}

/**
 * Returns the GPU models that constraints ask for, by the attribute `gpu_model` of agents.
 * @param {any[]} constraints of an app (lists) or a pod (objects)
 * @returns {string[]}
 */
function wantedModels(constraints) {
  return constraints
    .map((one) => (Array.isArray(one) ? { fieldName: one[0], value: one[2] } : one))
    .filter((one) => one.fieldName === "gpu_model" && one.value)
    .map((one) => String(one.value));
}

/**
 * Returns the services that filters of the address select.
 * @param {Service[]} all
 * @param {Record<string, string>} query `q`: part of id or label; `state`, `kind`: words; `gpu`: `1` for those with GPUs
 * @returns {Service[]}
 */
export function selected(all, query) {
  const words = (query.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  return all.filter((one) => {
    if (query.state && one.word !== query.state) return false;
    if (query.kind && one.kind !== query.kind) return false;
    if (query.gpu && one.gpus === 0) return false;
    if (words.length === 0) return true;
    const text = [one.id, ...Object.entries(one.labels).map(([name, value]) => `${name}:${value}`)].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}
