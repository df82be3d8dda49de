/** What GPUs do, asked of their machines only while somebody looks. */
import { idleSince } from "../core/gpus.js";
import { state } from "./store.js";
import { ApiError, get } from "./api.js";
import { usePolled } from "./poll.js";

const EVERY_MS = 2000;
/** How long what seldom changes is taken for so: how cards are connected, and which are parts of one. */
const DRIVER_MS = 60_000;
/** @type {Map<string, {at: number, gpus: Map<string, import("../core/types.js").Json>}>} */
const drivers = new Map();
/** Since when GPUs have been held and idle, for as long as this page is open. @type {Map<string, {task: string, since: number}>} */
let idle = new Map();

/**
 * @typedef {{agent: import("../core/types.js").Agent, gpus: import("../core/types.js").Json[] | null, shared: import("../core/types.js").Json[], driver: Map<string, import("../core/types.js").Json>, error: string}} Machine
 *   `gpus` null where the agent does not show them, as Mesos' own does not; `driver`: links and MIG by UUID
 * @returns {{machines: Machine[] | null, idle: Map<string, {task: string, since: number}>}}
 */
export function useGpus() {
  const agents = state.value.agents.filter((agent) => (agent.resources.gpus ?? 0) > 0 || agent.attributes?.gpu_count || agent.attributes?.gpu_shared_cards);
  const on = agents.map((agent) => agent.id + agent.active).join();
  const { value } = usePolled(
    async (signal) => {
      const machines = await Promise.all(agents.map((agent) => asked(agent, signal)));
      idle = idleSince(idle, machines.flatMap((machine) => machine.gpus ?? []), Date.now());
      return machines;
    },
    EVERY_MS,
    [on],
  );
  return { machines: state.value.mesosLoaded ? value : null, idle };
}

/** @param {import("../core/types.js").Agent} agent @param {AbortSignal} signal @returns {Promise<Machine>} */
async function asked(agent, signal) {
  const path = `ui/api/agents/${encodeURIComponent(agent.id)}`;
  /** @type {Machine} */
  const machine = { agent, gpus: null, shared: [], driver: new Map(), error: "" };
  try {
    const [gpus, shared, driver] = await Promise.all([
      get(`${path}/gpus`, { signal }),
      get(`${path}/gpu_shares`, { signal }).catch(none),
      driverOf(agent.id, path, signal),
    ]);
    return { ...machine, gpus: Array.isArray(gpus) ? gpus : null, shared: Array.isArray(shared) ? shared : [], driver };
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return machine;
    return { ...machine, error: error instanceof Error ? error.message : String(error) };
  }
}

/** @param {string} id @param {string} path @param {AbortSignal} signal */
async function driverOf(id, path, signal) {
  const known = drivers.get(id);
  if (known && Date.now() - known.at < DRIVER_MS) return known.gpus;
  const found = await get(`${path}/gpus/driver`, { signal }).catch(none);
  const gpus = new Map((found?.gpus ?? []).map((/** @type {import("../core/types.js").Json} */ gpu) => [gpu.uuid, gpu]));
  drivers.set(id, { at: Date.now(), gpus });
  return gpus;
}

/** What an agent does not show, or not to this reader, is left out. @param {unknown} error @returns {null} */
function none(error) {
  if (error instanceof ApiError && error.status >= 400 && error.status !== 401) return null;
  throw error;
}
