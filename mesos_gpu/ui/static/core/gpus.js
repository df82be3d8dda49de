/** GPUs by machine, and whether what is held is used. */

/** @typedef {import("./types.js").Json} Json */

/** Below this a GPU does nothing. */
export const IDLE_PERCENT = 3;
/** Minutes after which a GPU that is held and does nothing is pointed at. */
export const IDLE_MINUTES = 30;

/**
 * Remembers since when GPUs are held and idle.
 * @param {Map<string, {task: string, since: number}>} before by UUID
 * @param {Json[]} gpus
 * @param {number} at milliseconds
 * @returns {Map<string, {task: string, since: number}>}
 */
export function idleSince(before, gpus, at) {
  const found = new Map(before);
  for (const gpu of gpus) {
    const held = gpu.container_id ?? gpu.task_id;
    if (!held || !((gpu.utilization_percent ?? 100) < IDLE_PERCENT)) found.delete(gpu.uuid);
    else if (found.get(gpu.uuid)?.task !== held) found.set(gpu.uuid, { task: held, since: at });
  }
  return found;
}

/**
 * @param {Json} gpu
 * @returns {"free" | "held" | "ill"}
 */
export function useOf(gpu) {
  if (gpu.condition && gpu.condition !== "healthy") return "ill";
  return gpu.container_id || gpu.task_id ? "held" : "free";
}

/**
 * Returns how many GPUs there are of each use.
 * @param {Json[]} gpus
 * @returns {{all: number, free: number, held: number, ill: number}}
 */
export function totals(gpus) {
  const found = { all: gpus.length, free: 0, held: 0, ill: 0 };
  for (const gpu of gpus) found[useOf(gpu)]++;
  return found;
}
