/** Offers as a funnel: of those that came, how many were left after each thing that was asked for. */

/** @typedef {import("./types.js").Json} Json */

/**
 * @param {Json | undefined} queued an entry of the launch queue
 * @param {"rejectSummaryLastOffers" | "rejectSummaryLaunchAttempt"} which the last offer of each agent, or all since the start
 * @returns {{reason: string, came: number, left: number}[]}
 */
export function funnel(queued, which) {
  /** @type {Json[]} */
  const steps = queued?.processedOffersSummary?.[which] ?? [];
  return steps.map((step) => ({ reason: step.reason, came: step.processed, left: step.processed - step.declined }));
}
