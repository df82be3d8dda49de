/**
 * The form of an app and its JSON, in step: what the form does not show stays in the JSON as it is.
 * `written(document, formOf(document))` is the document again.
 */

/** @typedef {import("./types.js").Json} Json */
/**
 * @typedef {Object} Form
 * @property {string} id
 * @property {"none" | "MESOS" | "DOCKER"} runtime none: the machine's files; MESOS: UCR; DOCKER: Docker's daemon
 * @property {string} image
 * @property {string} cmd
 * @property {string} instances numbers as they are typed
 * @property {string} cpus
 * @property {string} mem
 * @property {string} gpus
 * @property {string} gpuModel
 * @property {string} gangSize members that start together
 * @property {string} priority
 * @property {string} env lines NAME=value
 * @property {string} labels lines NAME=value
 */

/** What an app begins as. @type {Json} */
export const NEW_APP = { id: "/", cmd: "", instances: 1, cpus: 0.1, mem: 128, gpus: 0 };

/** What Marathon adds to an app when it shows one. */
const SHOWN_ONLY = [
  "tasks",
  "tasksStaged",
  "tasksRunning",
  "tasksHealthy",
  "tasksUnhealthy",
  "deployments",
  "lastTaskFailure",
  "taskStats",
  "readinessCheckResults",
  "version",
  "versionInfo",
];

/** @param {Json} app as Marathon shows it @returns {Json} what can be sent back */
export function definition(app) {
  return Object.fromEntries(Object.entries(app).filter(([key]) => !SHOWN_ONLY.includes(key)));
}

/** @param {Json} document @returns {Form} */
export function formOf(document) {
  const container = object(document.container);
  const image = object(container.docker).image;
  const model = list(document.constraints).find(isModel);
  return {
    id: text(document.id),
    runtime: container.type === "DOCKER" ? "DOCKER" : image !== undefined ? "MESOS" : "none",
    image: text(image),
    cmd: text(document.cmd),
    instances: text(document.instances),
    cpus: text(document.cpus),
    mem: text(document.mem),
    gpus: text(document.gpus),
    gpuModel: model ? text(model[2]) : "",
    gangSize: text(object(document.gang).size),
    priority: text(document.priority),
    env: pairs(document.env),
    labels: pairs(document.labels),
  };
}

/**
 * Returns the document with what differs in the form.
 * @param {Json} document
 * @param {Form} form
 * @returns {Json}
 */
export function written(document, form) {
  const before = formOf(document);
  const next = { ...document };
  for (const name of /** @type {const} */ (["id", "cmd"])) if (form[name] !== before[name]) put(next, name, form[name]);
  for (const name of /** @type {const} */ (["instances", "cpus", "mem", "gpus", "priority"])) {
    if (form[name] !== before[name]) put(next, name, number(form[name]));
  }
  for (const name of /** @type {const} */ (["env", "labels"])) {
    if (form[name] !== before[name]) next[name] = { ...hidden(document[name]), ...unpaired(form[name]) };
  }
  if (form.gangSize !== before.gangSize) {
    put(next, "gang", form.gangSize === "" ? "" : { ...object(next.gang), size: number(form.gangSize) });
  }
  if (form.runtime !== before.runtime || form.image !== before.image) withContainer(next, form);
  if (form.runtime === "DOCKER" && before.runtime !== "DOCKER" && next.gpus !== undefined) next.gpus = 0;
  if (form.gpuModel !== before.gpuModel) {
    const others = list(document.constraints).filter((one) => !isModel(one));
    next.constraints = form.gpuModel ? [...others, ["gpu_model", "LIKE", form.gpuModel]] : others;
  }
  return next;
}

/** @param {Json} next changed in place @param {Form} form */
function withContainer(next, form) {
  if (form.runtime === "none") {
    delete next.container;
    return;
  }
  const container = object(next.container);
  next.container = { ...container, type: form.runtime, docker: { ...object(container.docker), image: form.image } };
}

/** @param {unknown} one */
function isModel(one) {
  return Array.isArray(one) && one[0] === "gpu_model" && one.length === 3;
}

/** @param {Json} next changed in place @param {string} name @param {unknown} value */
function put(next, name, value) {
  if (value === "") delete next[name];
  else next[name] = value;
}

/** @param {string} typed @returns {number | string} what is no number stays text, for the server to say so */
function number(typed) {
  return typed.trim() === "" || Number.isNaN(Number(typed)) ? typed.trim() : Number(typed);
}

/** @param {unknown} value @returns {string} */
function text(value) {
  return value === undefined || value === null || typeof value === "object" ? "" : String(value);
}

/** @param {unknown} value @returns {Json} */
function object(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
}

/** @param {unknown} value @returns {any[]} */
function list(value) {
  return Array.isArray(value) ? value : [];
}

/** @param {unknown} value @returns {string} */
function pairs(value) {
  return Object.entries(object(value))
    .filter(([, one]) => typeof one === "string")
    .map(([name, one]) => `${name}=${String(one).replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}`)
    .join("\n");
}

/** What lines cannot say, as secrets. @param {unknown} value @returns {Json} */
function hidden(value) {
  return Object.fromEntries(Object.entries(object(value)).filter(([, one]) => typeof one !== "string"));
}

/** @param {string} lines @returns {Record<string, string>} */
function unpaired(lines) {
  const found = lines
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [name = "", ...rest] = line.split("=");
      return [name.trim(), rest.join("=").replace(/\\(n|\\)/g, (_, mark) => (mark === "n" ? "\n" : "\\"))];
    });
  return Object.fromEntries(found);
}

/**
 * Returns what a server's refusal says of each field of the form, and what is of none.
 * @param {any} body of a 422: `details`, or `problems` with advice as /ui/api/advice gives them
 * @returns {{fields: Record<string, string>, others: string[]}}
 */
export function problemsOf(body) {
  /** @type {Record<string, string>} */
  const fields = {};
  const others = [];
  const shown = { id: "id", cmd: "cmd", instances: "instances", cpus: "cpus", mem: "mem", gpus: "gpus", env: "env", labels: "labels", container: "image", constraints: "gpuModel", gang: "gangSize", priority: "priority" };
  /** @type {{path: string, told: string}[]} */
  const found = Array.isArray(body?.problems)
    ? body.problems.map((/** @type {Json} */ one) => ({ path: one.path, told: [one.message, one.advice].filter(Boolean).join(": ") }))
    : list(body?.details).map(({ path = "", errors = [] }) => ({ path, told: errors.join(" ") }));
  for (const { path, told } of found) {
    const name = /** @type {Record<string, string>} */ (shown)[path.split(/[/(]/).filter(Boolean)[0] ?? ""];
    if (name) fields[name] = fields[name] ? `${fields[name]} ${told}` : told;
    else others.push(path && path !== "/" ? `${path}: ${told}` : told);
  }
  return { fields, others };
}
