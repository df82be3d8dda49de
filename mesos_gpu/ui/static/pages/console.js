/** Commands in the container of an instance, with its files and GPUs, and what they say while they run. */
import { lines, pieces } from "../core/ansi.js";
import { send } from "../edge/api.js";
import { t } from "../edge/store.js";
import { Problem } from "../parts/basics.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../parts/html.js";

const KEPT = 200_000;

/** @param {{agent: string, container: string}} props */
export function Console({ agent, container }) {
  const [command, setCommand] = useState("nvidia-smi");
  const [said, setSaid] = useState("");
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [busy, setBusy] = useState(false);
  const running = useRef(/** @type {AbortController | null} */ (null));
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => () => running.current?.abort(), []);
  useLayoutEffect(() => {
    if (place.current) place.current.scrollTop = place.current.scrollHeight;
  }, [said]);
  /** @param {string} text */
  const add = (text) => setSaid((before) => (before + text).slice(-KEPT));
  /** @param {Event} event */
  const run = async (event) => {
    event.preventDefault();
    const ending = (running.current = new AbortController());
    setBusy(true);
    setError(null);
    add(`$ ${command}\n`);
    try {
      const answer = await send("POST", `ui/api/agents/${encodeURIComponent(agent)}/run`, { body: { container_id: container, command }, accept: "*/*", signal: ending.signal });
      const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
      for (let piece = await reader?.read(); piece && !piece.done; piece = await reader?.read()) add(piece.value);
    } catch (problem) {
      if (!ending.signal.aborted) setError(problem);
    } finally {
      setBusy(false);
    }
  };
  return html`<form class="filters" onSubmit=${run}>
      <label class="grow"><span class="unseen">${t("console.command")}</span><input class="mono" spellcheck=${false} autocomplete="off" value=${command} onInput=${(/** @type {any} */ e) => setCommand(e.target.value)} /></label>
      <button class="primary" disabled=${busy || !command.trim()}>${t("console.run")}</button>
      <button type="button" disabled=${!busy} onClick=${() => running.current?.abort()}>${t("stop")}</button>
    </form>
    <p class="faint">${t("console.text")}</p>
    ${error && html`<${Problem} error=${error} />`}
    <pre class="log" ref=${place} tabindex="0" role="log" aria-label=${t("tab.console")}>${lines(said).map((line, i) => html`<span key=${i}>${pieces(line).map((piece) => html`<span class=${piece.style}>${piece.text}</span>`)}${"\n"}</span>`)}</pre>`;
}
