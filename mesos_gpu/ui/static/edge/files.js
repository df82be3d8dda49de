/** Files of sandboxes: where a task's are, and what is written there while one looks. */
import { sandboxOf } from "../core/sandbox.js";
import { ApiError, get, send } from "./api.js";

const FIRST_BYTES = 64 * 1024;
const PIECE_BYTES = 256 * 1024;

/**
 * @param {string} agentId
 * @param {string} taskId
 * @param {AbortSignal} [signal]
 */
export async function sandbox(agentId, taskId, signal) {
  return sandboxOf(await get(`ui/api/agents/${encodeURIComponent(agentId)}/state`, { signal }), taskId);
}

/**
 * @param {string} agentId
 * @param {string} what `browse`, `read`, `download`
 * @param {string} path
 * @returns {string}
 */
export function filesPath(agentId, what, path) {
  return `ui/api/agents/${encodeURIComponent(agentId)}/files/${what}?path=${encodeURIComponent(path)}`;
}

/** Reads a file onwards from near its end. */
export class Tail {
  /** @param {string} agentId @param {string} path */
  constructor(agentId, path) {
    this.agentId = agentId;
    this.path = path;
    this.offset = -1;
    this.decoder = new TextDecoder();
  }

  /**
   * Returns what has been written since the last call; nothing of a file that is not there.
   * @param {AbortSignal} [signal]
   * @returns {Promise<string>}
   */
  async next(signal) {
    try {
      if (this.offset < 0) {
        const size = Number((await this.read(-1, 0, signal)).headers.get("X-Offset"));
        this.offset = Math.max(0, size - FIRST_BYTES);
      }
      const answer = await this.read(this.offset, PIECE_BYTES, signal);
      const data = await answer.arrayBuffer();
      this.offset += data.byteLength;
      return this.decoder.decode(data, { stream: true });
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return "";
      throw error;
    }
  }

  /** @param {number} offset @param {number} length @param {AbortSignal} [signal] */
  read(offset, length, signal) {
    const query = `&offset=${offset}&length=${length}`;
    return send("GET", filesPath(this.agentId, "read", this.path) + query, { accept: "*/*", signal });
  }
}
