/** Colours of terminals (ECMA-48, SGR) as names of styles: text in, pieces of text out. Other sequences are dropped. */

const ESCAPES = /\u001b(?:\[([0-9;:?]*)[ -/]*([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\^_])/g;
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/**
 * @param {string} line
 * @returns {{text: string, style: string}[]} `style` is names of classes, empty for plain text
 */
export function pieces(line) {
  /** @type {{text: string, style: string}[]} */
  const found = [];
  let style = { bold: false, colour: "" };
  let at = 0;
  for (const match of line.matchAll(ESCAPES)) {
    add(found, line.slice(at, match.index), style);
    at = match.index + match[0].length;
    if (match[2] === "m") style = applied(style, match[1] ?? "");
  }
  add(found, line.slice(at), style);
  return found;
}

/**
 * @param {{text: string, style: string}[]} found
 * @param {string} text
 * @param {{bold: boolean, colour: string}} style
 */
function add(found, text, style) {
  if (text === "") return;
  const names = [style.bold ? "ansi-bold" : "", style.colour ? `ansi-${style.colour}` : ""];
  found.push({ text: text.replaceAll("\u001b", ""), style: names.filter(Boolean).join(" ") });
}

/** @param {{bold: boolean, colour: string}} style @param {string} codes */
function applied(style, codes) {
  const next = { ...style };
  for (const code of codes.split(/[;:]/).map(Number)) {
    if (code === 0) Object.assign(next, { bold: false, colour: "" });
    if (code === 1) next.bold = true;
    if (code === 22) next.bold = false;
    if (code >= 30 && code <= 37) next.colour = COLOURS[code - 30] ?? "";
    if (code >= 90 && code <= 97) next.colour = COLOURS[code - 90] ?? "";
    if (code === 39) next.colour = "";
    if (code === 38 || code === 48) break; // of 256 colours: the numbers that follow are no codes
  }
  return next;
}

/**
 * Returns lines without what a carriage return has written over, as a terminal shows progress bars.
 * @param {string} text
 * @returns {string[]}
 */
export function lines(text) {
  return text.split("\n").map((line) => line.replace(/\r$/, "").replace(/^.*\r/, ""));
}
