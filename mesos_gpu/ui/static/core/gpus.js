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
  return gpu.container_id || gpu.task_id || gpu.lease_id || (gpu.sharers ?? []).length > 0 ? "held" : "free";
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

/** How two GPUs reach each other, in the words of `nvidia-smi topo -m`, by NVML's levels (nvmlGpuTopologyLevel_t). */
const LEVELS = [
  [0, "SOC"],
  [10, "PIX"],
  [20, "PXB"],
  [30, "PHB"],
  [40, "NODE"],
  [50, "SYS"],
];

/**
 * Returns the short word for how two GPUs are connected: `NV4` for four NVLinks, else where their PCIe ways meet.
 * @param {{nvlinks?: number, level?: number} | undefined} between
 * @returns {string}
 */
export function linkWord(between) {
  if (!between) return "–";
  if ((between.nvlinks ?? 0) > 0) return `NV${between.nvlinks}`;
  const level = LEVELS.find(([number]) => number === between.level);
  return level ? String(level[1]) : "SYS";
}

/**
 * Returns what is shown of a card that nobody holds whole: how much of its memory containers have of it.
 * @param {Json} card of /gpu_shares
 * @returns {{given: number, all: number}} in the card's units of memory
 */
export function sharedUnits(card) {
  return { given: (card.containers ?? []).reduce((/** @type {number} */ sum, /** @type {Json} */ one) => sum + (one.mem_units ?? 0), 0), all: card.mem_units ?? 0 };
}
