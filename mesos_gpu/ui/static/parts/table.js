/**
 * Tables. Of a long one only the rows in sight are drawn; the table says how many there are and which these are, so that
 * screen readers count right (WAI-ARIA 1.2, aria-rowcount and aria-rowindex).
 */
import { html, useEffect, useRef, useState } from "./html.js";
import { t } from "../edge/store.js";

/** Pixels of a row, as in style/parts.css. */
export const ROW = 40;
const SPARE = 12;
const LONG = 120;
const FIRST = 40;

/**
 * @typedef {Object} Column
 * @property {string} key
 * @property {string} label
 * @property {(row: any) => any} cell
 * @property {(row: any) => string | number} [sort]
 * @property {boolean} [number] written at the right
 * @property {number} [rank] 2 and 3 go first where there is little room
 * @property {boolean} [head] what names the row
 */

/**
 * @param {{columns: Column[], rows: any[], id: (row: any) => string, caption: string, sortBy?: string,
 *   choose?: {chosen: Set<string>, toggle: (id: string) => void}}} props
 */
export function Table({ columns, rows, id, caption, sortBy = "", choose }) {
  const [order, setOrder] = useState(sortBy);
  const body = useRef(/** @type {HTMLTableSectionElement | null} */ (null));
  const [from, to] = useWindow(body, rows.length);
  const sorted = inOrder(rows, columns, order);
  const shown = sorted.slice(from, to);
  const width = columns.length + (choose ? 1 : 0);
  /** @param {string} key */
  const turn = (key) => setOrder(order === key ? `-${key}` : key);
  return html`<div class="table-frame" role="region" aria-label=${caption} tabindex="0">
    <table aria-rowcount=${rows.length + 1}>
      <caption class="unseen">${caption}</caption>
      <thead>
        <tr aria-rowindex="1">
          ${choose && html`<th class="choose"><span class="unseen">${t("choose")}</span></th>`}
          ${columns.map((column) => html`<th scope="col" class=${classes(column)} aria-sort=${sortWord(order, column.key)}>
            ${column.sort ? html`<button type="button" class="sort" onClick=${() => turn(column.key)}>${column.label}<span aria-hidden="true">${arrow(order, column.key)}</span></button>` : column.label}
          </th>`)}
        </tr>
      </thead>
      <tbody ref=${body}>
        ${from > 0 && html`<tr class="spacer" aria-hidden="true"><td colspan=${width} style=${{ height: `${from * ROW}px` }}></td></tr>`}
        ${shown.map((row, i) => {
          const name = id(row);
          return html`<tr key=${name} aria-rowindex=${from + i + 2}>
            ${choose && html`<td class="choose"><input type="checkbox" aria-label=${t("chooseOne", { name })} checked=${choose.chosen.has(name)} onChange=${() => choose.toggle(name)} /></td>`}
            ${columns.map((column) =>
              column.head ? html`<th scope="row" class=${classes(column)}>${column.cell(row)}</th>` : html`<td class=${classes(column)}>${column.cell(row)}</td>`,
            )}
          </tr>`;
        })}
        ${to < rows.length && html`<tr class="spacer" aria-hidden="true"><td colspan=${width} style=${{ height: `${(rows.length - to) * ROW}px` }}></td></tr>`}
      </tbody>
    </table>
  </div>`;
}

/**
 * Returns which rows are in sight, first and behind the last.
 * @param {{current: HTMLElement | null}} body
 * @param {number} count
 * @returns {[number, number]}
 */
function useWindow(body, count) {
  const [sight, setSight] = useState(/** @type {[number, number]} */ ([0, FIRST]));
  useEffect(() => {
    if (count <= LONG) return undefined;
    const look = () => {
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const first = Math.max(0, Math.floor(-top / ROW) - SPARE);
      const next = /** @type {[number, number]} */ ([first, Math.ceil((innerHeight - top) / ROW) + SPARE]);
      setSight((before) => (Math.abs(before[0] - next[0]) < SPARE / 2 && Math.abs(before[1] - next[1]) < SPARE / 2 ? before : next));
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [count]);
  if (count <= LONG) return [0, count];
  const from = Math.min(sight[0], Math.max(0, count - LONG));
  return [from, Math.min(count, Math.max(sight[1], from + 1))];
}

/**
 * @param {any[]} rows
 * @param {Column[]} columns
 * @param {string} order key of a column, with - before it for the other way round
 * @returns {any[]}
 */
export function inOrder(rows, columns, order) {
  const column = columns.find((one) => one.key === order.replace(/^-/, ""));
  const sort = column?.sort;
  if (!sort) return rows;
  const turned = order.startsWith("-") ? -1 : 1;
  return rows
    .map((row) => ({ row, key: sort(row) }))
    .sort((a, b) => (a.key < b.key ? -turned : a.key > b.key ? turned : 0))
    .map(({ row }) => row);
}

/** @param {Column} column */
function classes(column) {
  return [column.number ? "number" : "", column.rank ? `rank${column.rank}` : "", `col-${column.key}`].join(" ").trim();
}

/** @param {string} order @param {string} key */
function sortWord(order, key) {
  if (order === key) return "ascending";
  return order === `-${key}` ? "descending" : undefined;
}

/** @param {string} order @param {string} key */
function arrow(order, key) {
  if (order === key) return " ↑";
  return order === `-${key}` ? " ↓" : "";
}
