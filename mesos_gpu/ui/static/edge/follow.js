/** Keeps a stream of events open for as long as the page is, through every break. */
import { SseDecoder } from "../core/sse.js";
import { ApiError, send } from "./api.js";

const FIRST_WAIT_MS = 300;
const LONGEST_WAIT_MS = 3_000;

/**
 * Follows a stream. `opened` is called when it is open, each time: what happened in between is not told again.
 * @param {string} path
 * @param {{opened: () => void, event: (type: string, body: any) => void, lost: (error: Error) => void}} told
 * @returns {() => void} what ends it
 */
export function follow(path, told) {
  const ending = new AbortController();
  void run(path, told, ending.signal);
  return () => ending.abort();
}

/**
 * @param {string} path
 * @param {{opened: () => void, event: (type: string, body: any) => void, lost: (error: Error) => void}} told
 * @param {AbortSignal} ending
 */
async function run(path, told, ending) {
  let wait = FIRST_WAIT_MS;
  while (!ending.aborted) {
    try {
      const answer = await send("GET", path, { accept: "text/event-stream", signal: ending });
      told.opened();
      wait = FIRST_WAIT_MS;
      await read(answer, told.event);
      told.lost(new ApiError(0, "the stream of events has ended"));
    } catch (error) {
      if (ending.aborted) return;
      told.lost(error instanceof Error ? error : new Error(String(error)));
    }
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, LONGEST_WAIT_MS);
  }
}

/**
 * @param {Response} answer
 * @param {(type: string, body: any) => void} event
 */
async function read(answer, event) {
  if (!answer.body) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const decoder = new SseDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    for (const { type, data } of decoder.feed(value)) {
      try {
        event(type, JSON.parse(data));
      } catch {
        // Not ours; what it was about is asked again at the next reload.
      }
    }
  }
}
