/** What tasks write, live: text with its colours, never as markup. */
import { lines, pieces } from "../core/ansi.js";
import { shortId } from "../core/format.js";
import { download } from "../edge/api.js";
import { filesPath, sandbox, Tail } from "../edge/files.js";
import { t } from "../edge/store.js";
import { Problem } from "./basics.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";

const KEPT_LINES = 2000;
const EVERY_MS = 1000;

/**
 * @typedef {{task: string, agent: string}} Source
 * @param {{sources: Source[], file: string}} props
 */
export function Log({ sources, file }) {
  const [shown, setShown] = useState(/** @type {string[]} */ ([]));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [paused, setPaused] = useState(false);
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const still = useRef(false);
  still.current = paused;
  const key = sources.map((one) => one.task).join() + file;
  useEffect(() => {
    setShown([]);
    setError(null);
    const ending = new AbortController();
    for (const source of sources) {
      const before = sources.length > 1 ? `${shortId(source.task)}  ` : "";
      void tail(source, file, before, still, setShown, setError, ending.signal);
    }
    return () => ending.abort();
  }, [key]);
  useLayoutEffect(() => {
    const pane = place.current;
    if (pane && !paused) pane.scrollTop = pane.scrollHeight;
  }, [shown, paused]);
  const save = () => {
    for (const source of sources) void saved(source, file).catch(setError);
  };
  return html`<div class="log-tools">
      <button type="button" aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${paused ? t("log.follow") : t("log.pause")}</button>
      <button type="button" onClick=${save}>${t("download")}</button>
    </div>
    ${error && html`<${Problem} error=${error} />`}
    <pre class="log" ref=${place} tabindex="0" role="region" aria-label=${t("log.of", { file })}>${shown.length === 0 ? html`<span class="faint">${t("log.empty", { file })}</span>` : shown.map((line, i) => html`<${Line} key=${i} text=${line} />`)}</pre>`;
}

/** @param {{text: string}} props */
function Line({ text }) {
  return html`<span class="log-line">${pieces(text).map((piece) => (piece.style ? html`<span class=${piece.style}>${piece.text}</span>` : piece.text))}${"\n"}</span>`;
}

/**
 * @param {Source} source
 * @param {string} file
 * @param {string} before what stands before each line
 * @param {{current: boolean}} still
 * @param {(next: (before: string[]) => string[]) => void} setShown
 * @param {(error: unknown) => void} setError
 * @param {AbortSignal} ending
 */
async function tail(source, file, before, still, setShown, setError, ending) {
  /** @type {Tail | null} */
  let reading = null;
  let rest = "";
  while (!ending.aborted) {
    try {
      if (!reading) {
        const found = await sandbox(source.agent, source.task, ending);
        if (found) reading = new Tail(source.agent, `${found.directory}/${file}`);
        else setError(new Error(t("log.gone", { task: shortId(source.task) })));
      }
      if (reading && !still.current) {
        const text = await reading.next(ending);
        if (text) {
          const [...found] = lines(rest + text);
          rest = found.pop() ?? "";
          setShown((lines) => [...lines, ...found.map((line) => before + line)].slice(-KEPT_LINES));
        }
        setError(null);
      }
    } catch (error) {
      if (ending.aborted) return;
      setError(error);
    }
    await new Promise((done) => setTimeout(done, EVERY_MS));
  }
}

/** @param {Source} source @param {string} file */
async function saved(source, file) {
  const found = await sandbox(source.agent, source.task);
  if (!found) throw new Error(t("log.gone", { task: shortId(source.task) }));
  await download(filesPath(source.agent, "download", `${found.directory}/${file}`), `${shortId(source.task)}-${file}.txt`);
}
