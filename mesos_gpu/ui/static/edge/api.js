/** Calls of Marathon's API, and through it of master and agents. Credentials are kept here, in memory alone. */
import { signal } from "../parts/html.js";

/** Who is asked to log in, if anybody: at Marathon, or at Mesos. */
export const loginWanted = signal(/** @type {"" | "marathon" | "mesos"} */ (""));
/** What the server said to somebody who has not logged in. */
export const loginHint = signal("");
/** @type {{marathon: string, mesos: string}} */
const credentials = { marathon: "", mesos: "" };
const KEPT_KEY = "mesos-gpu-session";
/** The half of a session that is kept here, for all tabs of this page; the browser keeps the other, a cookie. */
let sessionKey = kept();

/** What a server refused, or that it could not be reached (status 0). */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {any} [body]
   */
  constructor(status, message, body) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

/**
 * Keeps a name and a password for the time that this page is open.
 * @param {"marathon" | "mesos"} where
 * @param {string} name
 * @param {string} password
 */
export function login(where, name, password) {
  const utf8 = new TextEncoder().encode(`${name}:${password}`);
  credentials[where] = `Basic ${btoa(String.fromCharCode(...utf8))}`;
  loginWanted.value = "";
}

/** Forgets who the reader is. */
export function logout() {
  credentials.marathon = credentials.mesos = "";
  if (sessionKey) void send("DELETE", "ui/api/session").catch(() => {});
  keep("");
  loginWanted.value = "marathon";
}

/** @returns {boolean} whether somebody has logged in */
export function loggedIn() {
  return credentials.marathon !== "" || credentials.mesos !== "" || sessionKey !== "";
}

/**
 * Lets the reader in by the ticket in the page's address, if there is one: `mesos-gpu ui` opens such. It is good once, and
 * is taken out of the address and of what "back" leads to before anything else.
 */
export async function enter() {
  const found = /^#ticket=([\w-]+)$/.exec(location.hash);
  if (!found) return;
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
  try {
    const answer = await ask("POST", "ui/api/session", { body: { ticket: found[1] } });
    keep(String(answer.key));
  } catch (error) {
    // The page asks for a name and a password then.
    if (error instanceof ApiError) loginHint.value = error.message;
  }
}

/** @returns {string} */
function kept() {
  try {
    return localStorage.getItem(KEPT_KEY) ?? "";
  } catch {
    return ""; // a browser that keeps nothing for pages
  }
}

/** @param {string} key nothing to forget it */
function keep(key) {
  sessionKey = key;
  try {
    if (key) localStorage.setItem(KEPT_KEY, key);
    else localStorage.removeItem(KEPT_KEY);
  } catch {
    // For this page it is known all the same.
  }
}

/**
 * Sends a request; the answer is not read yet.
 * @param {string} method
 * @param {string} path relative to Marathon's root, as `v2/apps`
 * @param {{body?: unknown, signal?: AbortSignal, accept?: string}} [options]
 * @returns {Promise<Response>}
 */
export async function send(method, path, options = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: options.accept ?? "application/json", "X-Requested-By": "mesos-gpu-ui" };
  if (credentials.marathon) headers.Authorization = credentials.marathon;
  if (credentials.mesos) headers["X-Mesos-Authorization"] = credentials.mesos;
  const key = credentials.marathon ? "" : sessionKey;
  if (key) headers["X-Session-Key"] = key;
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  /** @type {Response} */
  let answer;
  try {
    answer = await fetch(`../${path}`, {
      method,
      headers,
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      // With cookies a browser would show a window of its own for a name and a password, but to requests of a session.
      credentials: key || path === "ui/api/session" ? "same-origin" : "omit",
      cache: "no-store",
      signal: options.signal,
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "Marathon does not answer");
  }
  if (answer.ok) return answer;
  const error = await refused(answer);
  if (answer.status === 401) {
    if (key && key === sessionKey && answer.headers.get("X-Wanted-By") !== "mesos") keep("");
    loginHint.value = error.message;
    loginWanted.value = answer.headers.get("X-Wanted-By") === "mesos" ? "mesos" : "marathon";
  }
  throw error;
}

/**
 * Sends a request and returns the JSON of the answer, null when it has none. Throws ApiError.
 * @param {string} method
 * @param {string} path
 * @param {{body?: unknown, signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export async function ask(method, path, options) {
  const answer = await send(method, path, options);
  const text = await answer.text();
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiError(answer.status, "the answer is no JSON");
  }
}

/** @param {string} path @param {{signal?: AbortSignal}} [options] @returns {Promise<any>} */
export function get(path, options) {
  return ask("GET", path, options);
}

/**
 * Saves what an address answers as a file of the reader's.
 * @param {string} path
 * @param {string} name
 */
export async function download(path, name) {
  const answer = await send("GET", path, { accept: "*/*" });
  const url = URL.createObjectURL(await answer.blob());
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name.replace(/[^\w.-]+/g, "_");
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** @param {Response} answer @returns {Promise<ApiError>} */
async function refused(answer) {
  const text = await answer.text().catch(() => "");
  let body = null;
  try {
    body = JSON.parse(text);
  } catch {
    // A proxy's page, or nothing: the status says enough.
  }
  return new ApiError(answer.status, body?.message ?? (text.slice(0, 300) || `${answer.status} ${answer.statusText}`), body);
}

/** @param {string} id of an app or pod, with its slash @returns {string} in a path */
export function inPath(id) {
  return id.replace(/^\//, "").split("/").map(encodeURIComponent).join("/");
}
