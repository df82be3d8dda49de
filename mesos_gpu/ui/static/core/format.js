/** Numbers, times and names as people read them. */

/**
 * Returns MiB in the unit that suits.
 * @param {number} mib
 * @returns {string}
 */
export function memory(mib) {
  if (!Number.isFinite(mib)) return "–";
  if (mib >= 1024 * 1024) return `${trimmed(mib / 1024 / 1024)} TiB`;
  if (mib >= 1024) return `${trimmed(mib / 1024)} GiB`;
  return `${trimmed(mib)} MiB`;
}

/** @param {number} bytes @returns {string} */
export function bytes(bytes) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (bytes < 1024) return `${trimmed(bytes)} ${unit}`;
    bytes /= 1024;
  }
  return `${trimmed(bytes)} TiB`;
}

/**
 * Returns a number with one decimal at most.
 * @param {number} number
 * @returns {string}
 */
export function trimmed(number) {
  return String(Math.round(number * 10) / 10);
}

/**
 * Returns how long something is in the largest unit that fits: so many `s`, `min`, `h` or `d`.
 * @param {number} seconds
 * @returns {[number, "s" | "min" | "h" | "d"]}
 */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return [whole, "s"];
  if (whole < 3600) return [Math.floor(whole / 60), "min"];
  if (whole < 86400) return [Math.floor(whole / 3600), "h"];
  return [Math.floor(whole / 86400), "d"];
}

/**
 * Returns milliseconds of what servers write as time: ISO text, or seconds.
 * @param {string | number | undefined | null} time
 * @returns {number} NaN for none
 */
export function millis(time) {
  if (typeof time === "number") return time * 1000;
  return time ? Date.parse(time) : NaN;
}

/**
 * Returns the end of an id, which tells instances apart: of `web.instance-0b5f4f48-9194-...` that is `0b5f4f48`.
 * @param {string} id
 * @returns {string}
 */
export function shortId(id) {
  const found = /(?:instance-|\.)([0-9a-f]{8})-[0-9a-f]{4}-/.exec(id);
  if (found?.[1]) return found[1];
  return id.length > 28 ? `${id.slice(0, 12)}…${id.slice(-12)}` : id;
}

/**
 * Returns the address of a link that a label gives, where it is one of the web; null else: `javascript:` is none.
 * @param {unknown} text
 * @returns {string | null}
 */
export function webLink(text) {
  if (typeof text !== "string") return null;
  try {
    const url = new URL(text);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}

/**
 * Returns a text in which marks that turn or hide other text are shown by their code: names are anybody's.
 * @param {unknown} text
 * @returns {string}
 */
export function plain(text) {
  return String(text ?? "").replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (mark) => `‹${mark.codePointAt(0)?.toString(16).padStart(4, "0")}›`,
  );
}
