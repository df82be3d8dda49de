/** A terminal in the container of an instance. The emulator (xterm.js) is loaded when the first one is opened. */
import { Terminal } from "../edge/terminal.js";
import { t } from "../edge/store.js";
import { Problem } from "../parts/basics.js";
import { html, useEffect, useRef, useState } from "../parts/html.js";

const LOOK = { background: "#101418", foreground: "#e8eaed", cursor: "#e8eaed", selectionBackground: "#3b5b8c" };
const QUIET_MS = 100;

/** @returns {Promise<[typeof import("../vendor/xterm.js"), typeof import("../vendor/addon-fit.js")]>} */
function emulator() {
  const path = "vendor/xterm.css";
  if (!document.querySelector(`link[href="${path}"]`)) {
    const style = document.createElement("link");
    style.rel = "stylesheet";
    style.href = path;
    document.head.append(style);
  }
  return Promise.all([import("../vendor/xterm.js"), import("../vendor/addon-fit.js")]);
}

/** @param {{agent: string, container: import("../core/types.js").Json}} props */
export function TerminalPage({ agent, container }) {
  const [command, setCommand] = useState("");
  const [run, setRun] = useState(/** @type {{number: number, command: string, aloud: boolean} | null} */ (null));
  const [aloud, setAloud] = useState(false);
  const [busy, setBusy] = useState(false);
  const [note, setNote] = useState("");
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const leave = useRef(/** @type {(() => void) | null} */ (null));
  useEffect(() => {
    if (!run || !place.current) return undefined;
    const ending = shown(place.current, agent, container, run, {
      opened: () => setNote(t("terminal.open")),
      ended: (status) => {
        setBusy(false);
        setNote(status === null ? t("terminal.over") : t("terminal.ended", { status }));
      },
      lost: (problem) => {
        setBusy(false);
        setNote("");
        setError(problem);
      },
      left: () => leave.current?.(),
    });
    return ending;
  }, [run]);
  /** @param {Event} event */
  const open = (event) => {
    event.preventDefault();
    setError(null);
    setNote("");
    setBusy(true);
    setRun({ number: (run?.number ?? 0) + 1, command, aloud });
  };
  const close = () => {
    setRun(null);
    setBusy(false);
    setNote("");
  };
  leave.current = () => place.current?.parentElement?.querySelector(/** @type {any} */ ("button.leave"))?.focus();
  return html`<form class="filters" onSubmit=${open}>
      <label class="grow">${t("terminal.command")} <input class="mono" spellcheck=${false} autocomplete="off" placeholder=${t("terminal.shell")} value=${command} onInput=${(/** @type {any} */ e) => setCommand(e.target.value)} /></label>
      <button class="primary" disabled=${busy}>${t("terminal.start")}</button>
      <button type="button" class="leave" disabled=${!run} onClick=${close}>${t("terminal.close")}</button>
    </form>
    <label class="check"><input type="checkbox" checked=${aloud} disabled=${busy} onChange=${(/** @type {any} */ e) => setAloud(e.target.checked)} />${t("terminal.aloud")}</label>
    <p class="faint">${t("terminal.text")}</p>
    ${error && html`<${Problem} error=${error} />`}
    <p class="terminal-note" role="status">${note}</p>
    ${run && html`<div class="terminal-frame" key=${run.number} ref=${place} role="group" aria-label=${t("tab.terminal")}></div>`}`;
}

/**
 * Shows a terminal and has a command run in it; returns what ends both.
 * @param {HTMLElement} place
 * @param {string} agent
 * @param {import("../core/types.js").Json} container
 * @param {{command: string, aloud: boolean}} wish
 * @param {{opened: () => void, ended: (status: number | null) => void, lost: (error: unknown) => void, left: () => void}} told
 * @returns {() => void}
 */
function shown(place, agent, container, wish, told) {
  let gone = false;
  /** @type {(() => void)[]} */
  const undo = [];
  const run = async () => {
    const [{ Terminal: Screen }, { FitAddon }] = await emulator();
    if (gone) return;
    const screen = new Screen({ theme: LOOK, fontSize: 14, lineHeight: 1.2, cursorBlink: false, scrollback: 5000, screenReaderMode: wish.aloud, minimumContrastRatio: 4.5 });
    const fit = new FitAddon();
    screen.loadAddon(fit);
    screen.open(place);
    undo.push(() => screen.dispose());
    fit.fit();
    const terminal = new Terminal(agent, container, {
      said: (data) => screen.write(data),
      ended: (status) => {
        screen.options.disableStdin = true;
        told.ended(status);
      },
      lost: told.lost,
    });
    undo.push(() => terminal.close());
    const encoder = new TextEncoder();
    screen.onData((text) => terminal.type(encoder.encode(text)));
    screen.onBinary((text) => terminal.type(Uint8Array.from(text, (one) => one.charCodeAt(0))));
    screen.onResize(({ rows, cols }) => terminal.resize({ rows, columns: cols }));
    // Tab is for the program; this is the way out for those who have keys alone (WCAG 2.1.2).
    screen.attachCustomKeyEventHandler((event) => {
      if (event.key !== "F6" || !event.shiftKey) return true;
      if (event.type === "keydown") told.left();
      event.preventDefault();
      return false;
    });
    let timer = 0;
    const watching = new ResizeObserver(() => {
      clearTimeout(timer);
      timer = window.setTimeout(() => fit.fit(), QUIET_MS);
    });
    watching.observe(place);
    undo.push(() => watching.disconnect(), () => clearTimeout(timer));
    screen.focus();
    told.opened();
    await terminal.open(wish.command, { rows: screen.rows, columns: screen.cols });
  };
  run().catch((error) => {
    if (!gone) told.lost(error);
  });
  return () => {
    gone = true;
    for (const one of undo.reverse()) one();
  };
}
