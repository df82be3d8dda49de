/** Sentences in the reader's language: a key and values in, text out. */

/** @typedef {Record<string, string>} Words */

/**
 * Returns the language to begin with: the first one that the reader's browser asks for and that there is.
 * @param {readonly string[]} asked as in navigator.languages
 * @returns {"en" | "zh"}
 */
export function languageOf(asked) {
  for (const tag of asked) {
    if (/^zh\b/i.test(tag)) return "zh";
    if (/^en\b/i.test(tag)) return "en";
  }
  return "en";
}

/**
 * Returns a sentence with its values: `{count}` stands for one, and `{count|one instance|# instances}` for what goes
 * with it. A key that there is not is shown as it is.
 * @param {Words} words
 * @param {string} key
 * @param {Record<string, unknown>} [values]
 * @returns {string}
 */
export function sentence(words, key, values = {}) {
  const text = words[key];
  if (text === undefined) return key;
  return text.replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (whole, name, one, many) => {
    const value = values[name];
    if (value === undefined) return whole;
    if (one === undefined) return String(value);
    return Number(value) === 1 ? one : many.replaceAll("#", String(value));
  });
}
