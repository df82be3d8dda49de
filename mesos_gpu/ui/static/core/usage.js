/** What tasks had and used, as `mesos-gpu usage` writes it: values in, words out. */
import { memory } from "./format.js";

/** @typedef {import("./types.js").Json} Json */

export const BY = ["app", "role", "user"];
export const SINCE = ["1d", "7d", "4w", "12w"];
const _NONE = "–";
const _DAYS = { d: 1, w: 7 };

/**
 * Returns what to ask for of an address: what is put together, and from when on.
 * @param {Record<string, string>} query
 * @param {number} now ms
 * @returns {{by: string, since: string, path: string}}
 */
export function usageAsked(query, now) {
  const by = BY.includes(query.by ?? "") ? /** @type {string} */ (query.by) : "app";
  const since = SINCE.includes(query.since ?? "") ? /** @type {string} */ (query.since) : "7d";
  const days = Number(since.slice(0, -1)) * (_DAYS[/** @type {"d" | "w"} */ (since.slice(-1))] ?? 1);
  const from = new Date(now - days * 86_400_000).toISOString();
  return { by, since, path: `v1/usage?by=${by}&since=${encodeURIComponent(from)}` };
}

/**
 * Returns hours as days, hours, minutes and seconds: `1-06:30:00`, as Slurm writes them.
 * @param {number | null | undefined} hours
 * @returns {string}
 */
export function clock(hours) {
  if (hours === null || hours === undefined) return _NONE;
  const seconds = Math.round(hours * 3600);
  const days = Math.floor(seconds / 86400);
  const [h, m, s] = [Math.floor((seconds % 86400) / 3600), Math.floor((seconds % 3600) / 60), seconds % 60].map((n) => String(n).padStart(2, "0"));
  return `${days > 0 ? `${days}-` : ""}${h}:${m}:${s}`;
}

/** @param {number | null | undefined} part @returns {string} in percent; – where it was not measured */
export function percent(part) {
  return part === null || part === undefined ? _NONE : `${part.toFixed(1)} %`;
}

/** @param {number | null | undefined} mib @returns {string} */
function mib(mib) {
  return mib === null || mib === undefined ? _NONE : memory(mib);
}

/** @param {number | null | undefined} hours @returns {string} */
function hours(hours) {
  return hours === null || hours === undefined ? _NONE : hours.toFixed(2);
}

/**
 * The columns of sums, in their order: key of the words, how much room they need, what is written, what they sort by.
 * @type {[string, number, (each: Json) => string, (each: Json) => number][]}
 */
export const SUMS = [
  ["gpuHours", 1, (each) => hours(each.gpuHours), (each) => each.gpuHours ?? 0],
  ["gpuEfficiency", 1, (each) => percent(each.gpuEfficiency), (each) => each.gpuEfficiency ?? -1],
  ["gpuIdle", 1, (each) => percent(each.gpuIdle), (each) => each.gpuIdle ?? -1],
  ["cpuHours", 2, (each) => hours(each.cpuHours), (each) => each.cpuHours ?? 0],
  ["cpuEfficiency", 2, (each) => percent(each.cpuEfficiency), (each) => each.cpuEfficiency ?? -1],
  ["memMiB", 3, (each) => mib(each.memMiB), (each) => each.memMiB ?? 0],
  ["maxRssMiB", 3, (each) => mib(each.maxRssMiB), (each) => each.maxRssMiB ?? -1],
  ["maxGpuMemMiB", 3, (each) => mib(each.maxGpuMemMiB), (each) => each.maxGpuMemMiB ?? -1],
  ["elapsedHours", 2, (each) => clock(each.elapsedHours), (each) => each.elapsedHours ?? 0],
  ["tasksEnded", 3, (each) => String(each.tasksEnded ?? 0), (each) => each.tasksEnded ?? 0],
];

/**
 * Returns what one line is called, of an answer that is put together by this.
 * @param {Json} each
 * @returns {string} the same for no two lines
 */
export function named(each) {
  return [each.app, each.role, each.user].filter((part) => part !== undefined).join(" · ");
}
