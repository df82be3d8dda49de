/** The state of the page: what servers say goes through the reducer, and signals tell what has changed. */
import { EMPTY, noStale, withApp, withEvents, withSnapshot } from "../core/reducer.js";
import { parseRoute } from "../core/route.js";
import { services } from "../core/services.js";
import { languageOf, sentence } from "../core/words.js";
import { batch, computed, signal } from "../parts/html.js";
import { en } from "../words/en.js";
import { zh } from "../words/zh.js";
import { ApiError, get, inPath } from "./api.js";
import { follow } from "./follow.js";

/** @typedef {import("../core/types.js").State} State */

/** All that is known of the cluster. */
export const state = signal(/** @type {State} */ (EMPTY));
/** All services, in the same words. */
export const allServices = computed(() => services(state.value));
/** Where the reader is. */
export const route = signal(parseRoute(location.hash));
/** Seconds, once a second: ages are written with it. */
export const now = signal(Date.now());
/** Which services are away, and what was said. */
export const away = signal(/** @type {Record<string, string>} */ ({}));
/** What was done last, for a while: told at the edge and to screen readers. */
export const notices = signal(/** @type {{id: number, text: string, bad: boolean}[]} */ ([]));
export const language = signal(/** @type {"en" | "zh"} */ (languageOf(navigator.languages)));

/** Grows when the reader has changed something of Mesos: what shows it asks at once. */
export const changes = signal(0);

const BATCH_MS = 60;
const MOST_SINGLE = 12;
const MESOS_EVERY_MS = 4_000;
const JOBS_EVERY_MS = 10_000;
const JOBS = "v1/jobs?embed=activeRuns&embed=schedules";
/** @type {{type: string, body: any, at: string}[]} */
let waiting = [];
let stale = noStale();
let timer = 0;
let noticeId = 0;

/**
 * Returns a sentence in the reader's language.
 * @param {string} key
 * @param {Record<string, unknown>} [values]
 * @returns {string}
 */
export function t(key, values) {
  return sentence(language.value === "zh" ? zh : en, key, values);
}

/** Begins to follow the cluster. */
export function start() {
  addEventListener("hashchange", () => (route.value = parseRoute(location.hash)));
  setInterval(() => (now.value = Date.now()), 1000);
  follow("v2/events", {
    opened: () => {
      gone("marathon", null);
      void reload();
    },
    event: (type, body) => {
      waiting.push({ type, body, at: new Date().toISOString() });
      if (!timer) timer = window.setTimeout(flush, BATCH_MS);
    },
    lost: (error) => gone("marathon", error),
  });
  follow("ui/api/master/events", {
    opened: () => {
      gone("master", null);
      void reloadMesos();
    },
    event: (type) => {
      if (/^(AGENT|FRAMEWORK)_/.test(type)) void reloadMesos();
    },
    lost: (error) => {
      // While Marathon itself is away nothing is known of the master.
      if (!(error instanceof ApiError && error.status === 0)) gone("master", error);
    },
  });
  setInterval(() => {
    if (!document.hidden && !away.value.marathon) void reloadMesos();
  }, MESOS_EVERY_MS);
  setInterval(() => {
    if (!document.hidden && !away.value.marathon) void reloadJobs();
  }, JOBS_EVERY_MS);
}

/** Asks Marathon for everything: at the start, and after a gap in its events. */
export async function reload() {
  try {
    const [apps, pods, jobs, queue, deployments, info] = await Promise.all([
      get("v2/apps?embed=app.tasks&embed=app.counts&embed=app.deployments&embed=app.lastTaskFailure"),
      get("v2/pods/::status"),
      get(JOBS).catch(() => []),
      get("v2/queue"),
      get("v2/deployments?embed=blockers"),
      get("v2/info"),
    ]);
    state.value = withSnapshot(state.value, { apps: apps.apps, pods, jobs, queue: queue.queue, deployments, info });
  } catch (error) {
    failed(error);
  }
}

/** Asks for jobs: nothing tells when somebody makes, changes or removes one. */
export async function reloadJobs() {
  try {
    const jobs = await get(JOBS);
    const known = JSON.stringify([...state.value.jobs.values()]);
    if (JSON.stringify(jobs) !== known) state.value = withSnapshot(state.value, { jobs });
  } catch {
    // Who is away is told by the streams; a Marathon of others may know no jobs.
  }
}

let mesosAsked = 0;
/** Asks the master for its agents; never twice at a time. */
export async function reloadMesos() {
  if (mesosAsked && Date.now() - mesosAsked < 10_000) return;
  mesosAsked = Date.now();
  try {
    const found = await get("ui/api/master/slaves");
    state.value = { ...state.value, agents: found.slaves ?? [], mesosLoaded: true };
    gone("master", null);
  } catch (error) {
    if (error instanceof ApiError && error.status !== 0) gone("master", error);
  } finally {
    mesosAsked = 0;
  }
}

/** Takes in the events that came, and asks for what they leave open. */
function flush() {
  timer = 0;
  const result = withEvents(state.value, waiting);
  waiting = [];
  state.value = result.state;
  stale = {
    apps: new Set([...stale.apps, ...result.stale.apps]),
    pods: stale.pods || result.stale.pods,
    jobs: stale.jobs || result.stale.jobs,
    deployments: stale.deployments || result.stale.deployments,
    queue: stale.queue || result.stale.queue,
  };
  void refresh();
}

let refreshing = false;
async function refresh() {
  if (refreshing) return;
  refreshing = true;
  try {
    while (stale.apps.size > 0 || stale.pods || stale.jobs || stale.deployments || stale.queue) {
      const asked = stale;
      stale = noStale();
      await refreshed(asked);
    }
  } catch (error) {
    failed(error);
  } finally {
    refreshing = false;
  }
}

/** @param {import("../core/reducer.js").Stale} asked */
async function refreshed(asked) {
  if (asked.apps.size > MOST_SINGLE) {
    await reload();
    return;
  }
  const ids = [...asked.apps].filter((id) => !state.peek().pods.has(id));
  const [apps, pods, jobs, queue, deployments] = await Promise.all([
    Promise.all(ids.map((id) => get(`v2/apps/${inPath(id)}`).then((found) => found.app, absent))),
    asked.pods ? get("v2/pods/::status") : undefined,
    asked.jobs ? get(JOBS) : undefined,
    asked.queue ? get("v2/queue") : undefined,
    asked.deployments ? get("v2/deployments?embed=blockers") : undefined,
  ]);
  batch(() => {
    let next = state.value;
    ids.forEach((id, i) => (next = withApp(next, id, apps[i])));
    state.value = withSnapshot(next, { pods, jobs, queue: queue?.queue, deployments });
  });
}

/** @param {unknown} error @returns {null} */
function absent(error) {
  if (error instanceof ApiError && error.status === 404) return null;
  throw error;
}

/** @param {unknown} error */
function failed(error) {
  if (error instanceof ApiError && error.status === 401) return; // the login stands there
  if (error instanceof ApiError && error.status === 0) gone("marathon", error);
  else notice(error instanceof Error ? error.message : String(error), true);
}

/** @param {string} who @param {Error | null} error */
function gone(who, error) {
  if ((away.value[who] !== undefined) === (error !== null)) return;
  const { [who]: _, ...others } = away.value;
  if (error === null) away.value = others;
  else if (!(error instanceof ApiError && error.status === 401)) away.value = { ...others, [who]: error.message };
}

/**
 * Tells what was done, or what was refused.
 * @param {string} text
 * @param {boolean} [bad]
 */
export function notice(text, bad = false) {
  const id = ++noticeId;
  notices.value = [...notices.value.slice(-3), { id, text, bad }];
  setTimeout(() => (notices.value = notices.value.filter((one) => one.id !== id)), bad ? 15_000 : 6_000);
}

/**
 * Goes to another place of the page; with `replace` without a step in the browser's history.
 * @param {string} href as core/route.js makes it
 * @param {boolean} [replace]
 */
export function go(href, replace = false) {
  if (replace) history.replaceState(null, "", href);
  else history.pushState(null, "", href);
  route.value = parseRoute(href);
}
