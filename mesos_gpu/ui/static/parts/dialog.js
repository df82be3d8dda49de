/** One dialog at a time, in front of everything: the browser keeps the focus in it, and gives it back. */
import { link } from "../core/route.js";
import { t } from "../edge/store.js";
import { html, signal, useEffect, useRef, useState } from "./html.js";
import { Problem } from "./basics.js";

const content = signal(/** @type {any} */ (null));

/** @param {any} shown what stands in it */
export function openDialog(shown) {
  content.value = shown;
}

/** Closes it. */
export function closeDialog() {
  content.value = null;
}

/** Where the dialog is, when there is one. */
export function Dialog() {
  const place = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const open = content.value !== null;
  useEffect(() => {
    const dialog = place.current;
    if (!open || !dialog) return undefined;
    const before = document.activeElement;
    dialog.showModal();
    dialog.setAttribute("aria-label", dialog.querySelector("h2")?.textContent ?? "");
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, [open]);
  if (!open) return null;
  return html`<dialog ref=${place} onClose=${closeDialog} onCancel=${closeDialog}>
    ${content.value}
    <button type="button" class="quiet close" onClick=${closeDialog} aria-label=${t("close")}>✕</button>
  </dialog>`;
}

/**
 * Asks whether something is to be done, and says before what will happen.
 * @param {{title: string, will: string[], label: string, danger?: boolean, act: (force: boolean) => Promise<void>, children?: any}} props
 */
export function Confirm({ title, will, label, danger, act, children }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  /** @param {boolean} force */
  const run = async (force) => {
    setBusy(true);
    setError(null);
    try {
      await act(force);
      closeDialog();
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  // The list of deployments is all that tells what is locked from what is there already.
  const locks = error?.status === 409 && Array.isArray(error.body?.deployments) ? error.body.deployments : [];
  const locked = locks.length > 0;
  return html`<h2>${title}</h2>
    ${children}
    ${will.length > 0 && html`<ul class="will" aria-label=${t("will")}>${will.map((line) => html`<li>${line}</li>`)}</ul>`}
    ${error && html`<${Problem} error=${error} />`}
    ${locked && html`<p class="advice">${t("advice.locked", { ids: locks.map((/** @type {any} */ one) => one.id ?? one).join(", ") })} <a href=${link("deployments")} onClick=${closeDialog}>${t("page.deployments")}</a></p>`}
    <div class="buttons">
      <button type="button" onClick=${closeDialog}>${t("cancel")}</button>
      ${locked && html`<button type="button" class="danger" disabled=${busy} onClick=${() => run(true)}>${t("force")}</button>`}
      <button type="button" class=${danger ? "danger" : "primary"} disabled=${busy} onClick=${() => run(false)}>${label}</button>
    </div>`;
}
