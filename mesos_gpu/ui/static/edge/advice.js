/** What this Marathon, and the command line, would say of a document before it is sent. */
import { ask } from "./api.js";

/** @typedef {{problems: {path: string, message: string, advice?: string}[], warnings: string[]}} Advice */

/**
 * @param {"app" | "pod" | "job"} kind
 * @param {import("../core/types.js").Json} document
 * @returns {Promise<Advice | null>} null where it cannot be had
 */
export async function advised(kind, document) {
  try {
    return await ask("POST", "ui/api/advice", { body: { kind, document } });
  } catch {
    return null;
  }
}

/** @typedef {{now: boolean, summary: string, starts: any[], ends: any[], suspends?: any[], waits: any[]}} Plan */

/**
 * What this Marathon says would happen if a document were sent.
 * @param {"app" | "pod" | "job"} kind
 * @param {import("../core/types.js").Json} document
 * @returns {Promise<Plan | null>} null where it cannot be had
 */
export async function planned(kind, document) {
  try {
    return await ask("POST", "v1/plan?force=true", { body: { documents: [{ kind, document }] } });
  } catch {
    return null;
  }
}
