/** Where the files of a task lie, by what its agent says of its executors. Source: Mesos src/slave/http.cpp, /state. */

/** @typedef {import("./types.js").Json} Json */

/**
 * Returns the sandbox of a task, and the container it runs in; null where the agent has forgotten it.
 * Of a task group each task has a folder of its own in that of the executor.
 * @param {Json} agentState
 * @param {string} taskId
 * @returns {{directory: string, ended: boolean, task: Json | null} | null}
 */
export function sandboxOf(agentState, taskId) {
  let found = null;
  for (const framework of [...(agentState.completed_frameworks ?? []), ...(agentState.frameworks ?? [])]) {
    for (const [list, gone] of [[framework.completed_executors, true], [framework.executors, false]]) {
      for (const executor of list ?? []) {
        const task = tasksOf(executor).find((/** @type {Json} */ one) => one.id === taskId);
        if (executor.id !== taskId && !task) continue;
        const own = executor.type === "DEFAULT" ? `/tasks/${taskId}` : "";
        found = { directory: executor.directory + own, ended: gone, task: task ?? null };
      }
    }
  }
  return found;
}

/** @param {Json} executor @returns {Json[]} */
function tasksOf(executor) {
  return [...(executor.tasks ?? []), ...(executor.queued_tasks ?? []), ...(executor.completed_tasks ?? [])];
}
