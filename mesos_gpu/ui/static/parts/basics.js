/** Small parts that every page is made of. */
import { duration, millis, plain } from "../core/format.js";
import { SHAPES } from "../core/services.js";
import { now, t } from "../edge/store.js";
import { html, useState } from "./html.js";

/**
 * A state: shape, word and colour.
 * @param {{word: string, label?: string}} props
 */
export function State({ word, label }) {
  const shape = /** @type {Record<string, string>} */ (SHAPES)[word] ?? "○";
  return html`<span class=${`state state-${word}`}><span class="shape" aria-hidden="true">${shape}</span>${label ?? t(`state.${word}`)}</span>`;
}

/** How long something is, in words. @param {number} seconds @returns {string} */
export function lasting(seconds) {
  const [count, unit] = duration(seconds);
  return t(`time.${unit}`, { count });
}

/** A time as how long ago, with the whole time at hand. @param {{time: string | number | undefined | null}} props */
export function Ago({ time }) {
  const at = millis(time);
  if (Number.isNaN(at)) return html`<span class="faint">–</span>`;
  const date = new Date(at);
  return html`<time dateTime=${date.toISOString()} title=${date.toLocaleString()}>${t("ago", { time: lasting((now.value - at) / 1000) })}</time>`;
}

/**
 * A bar of how much of something is taken.
 * @param {{used: number, total: number, text: string, label: string, warn?: boolean}} props
 */
export function Bar({ used, total, text, label, warn }) {
  const share = total > 0 ? Math.min(1, used / total) : 0;
  return html`<span class="bar">
    <meter class=${warn ? "warn" : ""} min="0" max="1" value=${share} aria-label=${label}>${text}</meter>
    <span class="bar-text">${text}</span>
  </span>`;
}

/** What stands where there is nothing. @param {{title: string, text?: string, children?: any}} props */
export function Empty({ title, text, children }) {
  return html`<div class="empty"><p class="empty-title">${title}</p>${text && html`<p>${text}</p>`}${children}</div>`;
}

/** A button that puts a text where it can be pasted. @param {{text: string, label: string}} props */
export function Copy({ text, label }) {
  const [done, setDone] = useState(false);
  const copy = () => {
    void navigator.clipboard?.writeText(text).then(() => {
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    });
  };
  return html`<button type="button" class="quiet small" onClick=${copy} aria-label=${label} title=${label}>${done ? "✓" : html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><rect x="5.5" y="5.5" width="8" height="9" rx="1.5"/><path d="M10.5 5.5v-2A1.5 1.5 0 0 0 9 2H4a1.5 1.5 0 0 0-1.5 1.5v6A1.5 1.5 0 0 0 4 11h1.5"/></svg>`}</button>`;
}

/** An id that may be anybody's text. @param {{text: string, full?: string}} props */
export function Name({ text, full }) {
  return html`<bdi class="name" title=${plain(full ?? text)}>${plain(text)}</bdi>`;
}

/**
 * Pages within a page.
 * @param {{tabs: {key: string, label: string, count?: number}[], current: string, href: (key: string) => string, label: string}} props
 */
export function Tabs({ tabs, current, href, label }) {
  return html`<nav class="tabs" aria-label=${label}>
    ${tabs.map(
      (tab) => html`<a href=${href(tab.key)} aria-current=${tab.key === current ? "page" : undefined}>${tab.label}${tab.count !== undefined && html` <span class="count">${tab.count}</span>`}</a>`,
    )}
  </nav>`;
}

/** Names and values. @param {{rows: [string, any][]}} props */
export function Facts({ rows }) {
  return html`<dl class="facts">
    ${rows.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

/** Something that was refused, or could not be had. @param {{error: unknown}} props */
export function Problem({ error }) {
  const text = error instanceof Error ? error.message : String(error);
  return html`<p class="problem" role="alert"><span aria-hidden="true">✚</span> ${plain(text)}</p>`;
}
