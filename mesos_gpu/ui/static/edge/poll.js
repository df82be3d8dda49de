/** Asks again and again, while somebody looks. */
import { useEffect, useState } from "../parts/html.js";

/**
 * Returns what `load` last brought, and what went wrong last. It is asked again `every` milliseconds, but not while the
 * page is hidden, and anew when `on` changes.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {number} every 0: once
 * @param {unknown[]} on
 * @returns {{value: T | null, error: unknown}}
 */
export function usePolled(load, every, on) {
  const [found, setFound] = useState(/** @type {{value: T | null, error: unknown}} */ ({ value: null, error: null }));
  useEffect(() => {
    const ending = new AbortController();
    let timer = 0;
    const run = async () => {
      if (!document.hidden || every === 0) {
        try {
          const value = await load(ending.signal);
          if (!ending.signal.aborted) setFound({ value, error: null });
        } catch (error) {
          if (!ending.signal.aborted) setFound((before) => ({ value: before.value, error }));
        }
      }
      if (every > 0 && !ending.signal.aborted) timer = window.setTimeout(run, every);
    };
    setFound((before) => (before.value === null && before.error === null ? before : { value: null, error: null }));
    void run();
    return () => {
      ending.abort();
      clearTimeout(timer);
    };
  }, on);
  return found;
}
