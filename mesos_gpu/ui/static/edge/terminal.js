/** A program in a container with a terminal: what it says comes as events, what is typed goes in requests of its own. */
import { SseDecoder } from "../core/sse.js";
import { fromBase64, toBase64 } from "../core/bytes.js";
import { ApiError, send } from "./api.js";

/** @typedef {{rows: number, columns: number}} Size */

/** One terminal, from its opening to the end of its program. */
export class Terminal {
  /**
   * @param {string} agentId
   * @param {import("../core/types.js").Json} container
   * @param {{said: (data: Uint8Array) => void, ended: (status: number | null) => void, lost: (error: unknown) => void}} told
   */
  constructor(agentId, container, told) {
    this.path = `ui/api/agents/${encodeURIComponent(agentId)}/terminal`;
    this.container = container;
    this.told = told;
    this.session = "";
    this.ending = new AbortController();
    /** @type {Uint8Array[]} */
    this.typed = [];
    /** @type {Size | null} */
    this.size = null;
    this.sending = false;
    this.over = false;
  }

  /**
   * Runs a command, or a shell where there is none, until it ends or this terminal is closed.
   * @param {string} command
   * @param {Size} size
   */
  async open(command, size) {
    try {
      const body = { container_id: this.container, command, ...size };
      const answer = await send("POST", this.path, { body, accept: "text/event-stream", signal: this.ending.signal });
      const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
      const decoder = new SseDecoder();
      for (let piece = await reader?.read(); piece && !piece.done; piece = await reader?.read()) {
        for (const { type, data } of decoder.feed(piece.value)) this.take(type, JSON.parse(data));
      }
      if (!this.over) throw new ApiError(0, "the terminal was cut off");
    } catch (error) {
      if (!this.over && !this.ending.signal.aborted) this.told.lost(error);
    }
    this.over = true;
  }

  /** @param {string} type @param {any} body */
  take(type, body) {
    if (type === "said") this.told.said(fromBase64(body));
    if (type === "opened") {
      this.session = body.session;
      void this.flush();
    }
    if (type === "ended" || type === "lost") {
      this.over = true;
      if (type === "ended") this.told.ended(body.status);
      else this.told.lost(new ApiError(0, body.message));
    }
  }

  /** @param {Uint8Array} data what was typed */
  type(data) {
    this.typed.push(data);
    void this.flush();
  }

  /** @param {Size} size */
  resize(size) {
    this.size = size;
    void this.flush();
  }

  /** Ends it, and what runs in it. */
  close() {
    this.over = true;
    this.ending.abort();
  }

  /** Sends what was typed, one request at a time, so that it arrives in order. */
  async flush() {
    if (this.sending || !this.session) return;
    this.sending = true;
    try {
      while (!this.over && (this.typed.length > 0 || this.size)) {
        const body = { ...(this.typed.length > 0 ? { typed: toBase64(this.typed) } : {}), ...this.size };
        this.typed = [];
        this.size = null;
        await send("POST", `${this.path}/${this.session}`, { body, signal: this.ending.signal });
      }
    } catch (error) {
      // A program that has ended reads no more; how it did is about to be told.
      if (!this.over && !(error instanceof ApiError && error.status === 404)) this.told.lost(error);
    } finally {
      this.sending = false;
    }
  }
}
