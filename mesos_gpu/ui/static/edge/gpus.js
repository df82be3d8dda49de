/** What GPUs do, asked of their machines only while somebody looks. */
import { idleSince } from "../core/gpus.js";
import { state } from "./store.js";
import { ApiError, get } from "./api.js";
import { usePolled } from "./poll.js";

const EVERY_MS = 2000;
/** Since when GPUs have been held and idle, for as long as this page is open. @type {Map<string, {task: string, since: number}>} */
let idle = new Map();

/**
 * @typedef {{agent: import("../core/types.js").Agent, gpus: import("../core/types.js").Json[] | null, error: string}} Machine
 *   `gpus` null where the agent does not show them, as Mesos' own does not
 * @returns {{machines: Machine[] | null, idle: Map<string, {task: string, since: number}>}}
 */
export function useGpus() {
  const agents = state.value.agents.filter((agent) => (agent.resources.gpus ?? 0) > 0 || agent.attributes?.gpu_count);
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
  try {
    const found = await get(`ui/api/agents/${encodeURIComponent(agent.id)}/gpus`, { signal });
    return { agent, gpus: Array.isArray(found) ? found : null, error: "" };
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return { agent, gpus: null, error: "" };
    return { agent, gpus: null, error: error instanceof Error ? error.message : String(error) };
  }
}
