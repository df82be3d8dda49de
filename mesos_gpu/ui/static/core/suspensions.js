/** What is said of a task whose GPUs are put away, or were to be: docs/do/tasks.md. */

/** @typedef {import("./types.js").Task} Task */

/** Whether its GPUs are put away; one that was only asked to do so has them. @param {Task} task @returns {boolean} */
export const isAway = (task) => task.suspension !== undefined && task.suspension.state !== "asked";

/**
 * Returns sentences about a task's suspension, as keys of words and their values; none where there is nothing to say.
 * @param {Task} task
 * @returns {[string, Record<string, unknown>][]}
 */
export function suspensionOf({ suspension, suspensionRefused: no }) {
  /** @type {[string, Record<string, unknown>][]} */
  const said = [];
  if (suspension?.for) said.push([`suspension.${suspension.state === "asked" ? "asked" : "away"}`, { taker: suspension.for }]);
  else if (suspension) said.push(["suspension.byHand", {}]);
  if (suspension?.unanswered) said.push(["suspension.silent", {}]);
  if (no) said.push([no.what === "resume" ? "suspension.notResumed" : "suspension.notSuspended", { taker: no.for, reason: no.reason }]);
  return said;
}
