/** Maintenance and quota: what operators change, as values. */

/** @typedef {import("./types.js").Json} Json */
/** @typedef {import("./plan.js").Sentence} Sentence */

/** Resources that have a quota. */
export const QUOTED = ["gpus", "cpus", "mem", "disk"];

/** @param {import("./types.js").Agent} agent @returns {{hostname: string, ip: string}} its MachineID */
export function machineId(agent) {
  const address = agent.pid.split("@")[1] ?? "";
  return { hostname: agent.hostname, ip: address.slice(0, address.lastIndexOf(":")).replace(/^\[|\]$/g, "") };
}

/** @param {Json} one @param {Json} other @returns {boolean} whether two MachineIDs name one machine (Mesos compares hostnames in lower case) */
export function sameMachine(one, other) {
  return (one.hostname ?? "").toLowerCase() === (other.hostname ?? "").toLowerCase() && (one.ip ?? "") === (other.ip ?? "");
}

/**
 * Returns the times of maintenance, the next one first.
 * @param {Json | null} schedule
 * @param {Json | null} status which machines drain, and which are down
 * @returns {{machine: Json, start: number, end: number | null, down: boolean}[]} times in milliseconds
 */
export function windowsOf(schedule, status) {
  const down = status?.down_machines ?? [];
  return (schedule?.windows ?? [])
    .flatMap((/** @type {Json} */ time) =>
      (time.machine_ids ?? []).map((/** @type {Json} */ machine) => {
        const start = (time.unavailability?.start?.nanoseconds ?? 0) / 1e6;
        const length = time.unavailability?.duration?.nanoseconds;
        return { machine, start, end: length === undefined ? null : start + length / 1e6, down: down.some((/** @type {Json} */ one) => sameMachine(one, machine)) };
      }),
    )
    .sort((/** @type {{start: number}} */ a, /** @type {{start: number}} */ b) => a.start - b.start);
}

/**
 * Returns a schedule in which a machine has this time and no other; without a time it has none.
 * @param {Json | null} schedule
 * @param {Json} machine
 * @param {{start: number, hours: number} | null} time `start` in milliseconds
 * @returns {Json}
 */
export function rescheduled(schedule, machine, time) {
  const windows = (schedule?.windows ?? [])
    .map((/** @type {Json} */ time) => ({ ...time, machine_ids: (time.machine_ids ?? []).filter((/** @type {Json} */ one) => !sameMachine(one, machine)) }))
    .filter((/** @type {Json} */ time) => time.machine_ids.length > 0);
  if (!time) return { windows };
  const unavailability = { start: { nanoseconds: time.start * 1e6 }, duration: { nanoseconds: Math.round(time.hours * 3600) * 1e9 } };
  return { windows: [...windows, { machine_ids: [machine], unavailability }] };
}

/**
 * Returns the QuotaConfig of what was typed; an empty field is no limit, or no guarantee.
 * @param {string} role
 * @param {Record<string, string>} limits
 * @param {Record<string, string>} guarantees
 * @returns {{config: Json, wrong: string[]}} `wrong`: names of resources that are no numbers, 0 or more, or of which more is guaranteed than allowed
 */
export function quotaConfig(role, limits, guarantees) {
  const wrong = QUOTED.filter((name) => {
    const [limit, sure] = [limits[name] ?? "", guarantees[name] ?? ""].map((typed) => (typed.trim() === "" ? null : Number(typed)));
    const bad = [limit, sure].some((number) => number !== null && number !== undefined && !(number >= 0 && Number.isFinite(number)));
    return bad || (limit !== null && sure !== null && Number(sure) > Number(limit));
  });
  return { config: { role, limits: scalars(limits), guarantees: scalars(guarantees) }, wrong };
}

/** @param {Record<string, string>} typed @returns {Json} */
function scalars(typed) {
  const given = QUOTED.filter((name) => (typed[name] ?? "").trim() !== "");
  return Object.fromEntries(given.map((name) => [name, { value: Number(typed[name]) }]));
}

/**
 * Returns what a quota will do to a role.
 * @param {Json | undefined} role as /roles shows it
 * @param {Json} config of quotaConfig
 * @returns {Sentence[]}
 */
export function quotaPlan(role, config) {
  const names = (/** @type {Json} */ amounts) => QUOTED.filter((name) => amounts[name]).map((name) => `${name} ${amounts[name].value}`).join(", ");
  /** @type {Sentence[]} */
  const said = [names(config.limits) ? ["quota.limits", { amounts: names(config.limits) }] : ["quota.noLimits", {}]];
  if (names(config.guarantees)) said.push(["quota.guarantees", { amounts: names(config.guarantees) }]);
  const used = role?.quota?.consumed ?? role?.allocated ?? role?.resources ?? {};
  const over = QUOTED.filter((name) => config.limits[name] && (used[name] ?? 0) > config.limits[name].value);
  if (over.length > 0) said.push(["quota.over", { names: over.join(", ") }]);
  return said;
}
