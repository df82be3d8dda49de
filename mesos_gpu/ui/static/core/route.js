/** Addresses of pages: `#/services/team/web?tab=why` is page `services`, id `/team/web`, query `tab=why`. */

/** @typedef {{page: string, id: string, query: Record<string, string>}} Route */

/**
 * @param {string} hash of the address, with its #
 * @returns {Route}
 */
export function parseRoute(hash) {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [page, ...rest] = path.split("/");
  const id = rest.map(decoded).join("/");
  return { page: page || "overview", id: id ? `/${id}` : "", query: Object.fromEntries(new URLSearchParams(search)) };
}

/**
 * @param {string} page
 * @param {string} [id] with or without its slash
 * @param {Record<string, string>} [query] empty values are left out
 * @returns {string} what a link leads to
 */
export function link(page, id = "", query = {}) {
  const path = id.replace(/^\//, "").split("/").map(encodeURIComponent).join("/");
  const given = Object.entries(query).filter(([, value]) => value);
  const search = new URLSearchParams(given).toString();
  return `#/${page}${path ? `/${path}` : ""}${search ? `?${search}` : ""}`;
}

/** @param {string} text @returns {string} */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
