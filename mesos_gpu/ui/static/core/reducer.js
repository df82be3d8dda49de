/** What the page knows, and how news change it: a state and a piece of news in, the next state out. */

/** @typedef {import("./types.js").State} State */
/** @typedef {import("./types.js").Json} Json */
/** @typedef {import("./types.js").Task} Task */

/** How many events are kept; older ones are dropped. */
export const KEPT_EVENTS = 500;

/** @type {State} */
export const EMPTY = {
  loaded: false,
  apps: new Map(),
  pods: new Map(),
  jobs: new Map(),
  tasks: new Map(),
  queue: new Map(),
  deployments: [],
  info: {},
  agents: [],
  frameworks: [],
  roles: [],
  mesosLoaded: false,
  events: [],
};

/** States in which a task has ended. Source: Mesos include/mesos/mesos.proto, TaskState. */
export const ENDED = new Set([
  "TASK_FINISHED",
  "TASK_FAILED",
  "TASK_KILLED",
  "TASK_ERROR",
  "TASK_LOST",
  "TASK_DROPPED",
  "TASK_GONE",
  "TASK_GONE_BY_OPERATOR",
]);

/**
 * Returns the state after all of Marathon was asked.
 * @param {State} state
 * @param {{apps?: Json[], pods?: Json[], jobs?: Json[], queue?: Json[], deployments?: any[], info?: Json}} snapshot
 * @returns {State}
 */
export function withSnapshot(state, snapshot) {
  const next = { ...state, loaded: true };
  if (snapshot.apps) {
    next.apps = new Map(snapshot.apps.map((app) => [app.id, withoutTasks(app)]));
    next.tasks = new Map(snapshot.apps.flatMap((app) => (app.tasks ?? []).map((/** @type {Task} */ task) => [task.id, task])));
  }
  if (snapshot.pods) next.pods = new Map(snapshot.pods.map((pod) => [pod.id, pod]));
  if (snapshot.jobs) next.jobs = new Map(snapshot.jobs.map((job) => [job.id, job]));
  if (snapshot.queue) next.queue = new Map(snapshot.queue.map((item) => [queuedId(item), item]));
  if (snapshot.deployments) next.deployments = snapshot.deployments;
  if (snapshot.info) next.info = snapshot.info;
  return next;
}

/**
 * Returns the state after one app was asked; `app` null says that it is gone.
 * @param {State} state
 * @param {string} id
 * @param {Json | null} app
 * @returns {State}
 */
export function withApp(state, id, app) {
  const apps = new Map(state.apps);
  const tasks = new Map(state.tasks);
  for (const task of state.tasks.values()) if (task.appId === id) tasks.delete(task.id);
  if (app === null) {
    apps.delete(id);
  } else {
    apps.set(id, withoutTasks(app));
    for (const task of app.tasks ?? []) tasks.set(task.id, task);
  }
  return { ...state, apps, tasks };
}

/**
 * Returns the state after events came, and what they leave unclear and is to be asked again.
 * @param {State} state
 * @param {{type: string, body: Json, at: string}[]} events
 * @returns {{state: State, stale: Stale}}
 */
export function withEvents(state, events) {
  const stale = noStale();
  let tasks = state.tasks;
  let number = state.events.at(-1)?.number ?? 0;
  const seen = [];
  for (const { type, body, at } of events) {
    if (type === "event_stream_attached" || type === "event_stream_detached") continue;
    seen.push({ number: ++number, at: body.timestamp ?? at, type, body });
    const run = runOf(state, body);
    if (run) stale.jobs = true;
    if (type === "status_update_event" && !run) {
      if (tasks === state.tasks) tasks = new Map(tasks);
      applyStatus(tasks, body);
    }
    if (!run) markStale(stale, type, body);
  }
  return { state: { ...state, tasks, events: [...state.events, ...seen].slice(-KEPT_EVENTS) }, stale };
}

/**
 * @typedef {{apps: Set<string>, pods: boolean, jobs: boolean, deployments: boolean, queue: boolean}} Stale
 * @returns {Stale}
 */
export function noStale() {
  return { apps: new Set(), pods: false, jobs: false, deployments: false, queue: false };
}

/**
 * Tells whether an event is about a run of a job, which Marathon carries out as an app of the id `/job/id/RUN`.
 * @param {State} state
 * @param {Json} body
 * @returns {boolean}
 */
function runOf(state, body) {
  const id = body.appId ?? body.runSpecId;
  if (typeof id !== "string" || state.jobs.size === 0) return false;
  const steps = id.replace(/^\//, "").split("/");
  return steps.length > 1 && /^\d{14}\w+$/.test(steps.at(-1) ?? "") && state.jobs.has(steps.slice(0, -1).join("."));
}

/**
 * @param {Map<string, Task>} tasks changed in place
 * @param {Json} body of a status_update_event
 */
function applyStatus(tasks, body) {
  const id = body.taskId;
  if (ENDED.has(body.taskStatus)) {
    tasks.delete(id);
    return;
  }
  /** @type {Task} */
  const before = tasks.get(id) ?? { id, appId: body.appId, state: "" };
  tasks.set(id, {
    ...before,
    state: body.taskStatus,
    host: body.host ?? before.host,
    slaveId: body.slaveId ?? before.slaveId,
    ports: body.ports ?? before.ports,
    version: body.version ?? before.version,
  });
}

/**
 * @param {Stale} stale changed in place
 * @param {string} type
 * @param {Json} body
 */
function markStale(stale, type, body) {
  if (type.startsWith("pod_")) stale.pods = true;
  if (type.startsWith("job_")) stale.jobs = true;
  if (type.startsWith("deployment_")) {
    stale.deployments = stale.queue = true;
    for (const id of affected(body.plan)) stale.apps.add(id);
  }
  const id = body.appId ?? body.runSpecId ?? body.appDefinition?.id;
  if (typeof id === "string" && !type.startsWith("deployment_")) stale.apps.add(id.startsWith("/") ? id : `/${id}`);
  if (type === "status_update_event" || type === "instance_changed_event") stale.queue = stale.pods = true;
  if (type === "status_update_event" || type.startsWith("instance_")) stale.deployments = true;
}

/** @param {Json | undefined} plan @returns {string[]} */
function affected(plan) {
  const steps = plan?.steps ?? [];
  const ids = steps.flatMap((/** @type {Json} */ step) => (step.actions ?? []).map((/** @type {Json} */ a) => a.app ?? a.pod));
  return ids.filter((/** @type {any} */ id) => typeof id === "string");
}

/** @param {Json} item of the launch queue @returns {string} */
function queuedId(item) {
  return (item.app ?? item.pod ?? {}).id;
}

/** @param {Json} app @returns {Json} */
function withoutTasks(app) {
  const { tasks: _, ...rest } = app;
  return rest;
}
