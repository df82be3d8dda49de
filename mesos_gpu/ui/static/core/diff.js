/** What differs between two texts, line by line: the shortest way from one to the other (longest common lines). */

/**
 * @param {string} before
 * @param {string} after
 * @returns {{kind: "same" | "add" | "remove", text: string}[]}
 */
export function diff(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  const common = lengths(a, b);
  /** @type {{kind: "same" | "add" | "remove", text: string}[]} */
  const found = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push({ kind: "same", text: a[i++] ?? "" });
      j++;
    } else if (i < a.length && (j === b.length || at(common, i + 1, j) >= at(common, i, j + 1))) {
      found.push({ kind: "remove", text: a[i++] ?? "" });
    } else {
      found.push({ kind: "add", text: b[j++] ?? "" });
    }
  }
  return found;
}

/**
 * @param {string[]} a
 * @param {string[]} b
 * @returns {Uint16Array[]} how many lines are common from i and j on
 */
function lengths(a, b) {
  const found = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    const row = found[i];
    for (let j = b.length - 1; row && j >= 0; j--) {
      row[j] = a[i] === b[j] ? at(found, i + 1, j + 1) + 1 : Math.max(at(found, i + 1, j), at(found, i, j + 1));
    }
  }
  return found;
}

/** @param {Uint16Array[]} table @param {number} i @param {number} j @returns {number} */
function at(table, i, j) {
  return table[i]?.[j] ?? 0;
}

/**
 * Returns JSON whose keys stand in order, so that two of them can be compared.
 * @param {any} value
 * @returns {string}
 */
export function ordered(value) {
  return JSON.stringify(sortedKeys(value), null, 2);
}

/** @param {any} value @returns {any} */
function sortedKeys(value) {
  if (Array.isArray(value)) return value.map(sortedKeys);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((key) => [key, sortedKeys(value[key])]),
  );
}
