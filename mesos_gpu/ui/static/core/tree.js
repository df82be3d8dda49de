/** Services by the groups that their ids name. */

/** @typedef {import("./types.js").Service} Service */
/** @typedef {{id: string, groups: Group[], services: Service[], count: number, gpus: number, running: number, wanted: number, word: string}} Group */

/**
 * Returns the tree of groups; each has the sums of what is below it, and the state that most needs somebody.
 * @param {Service[]} services
 * @param {string[]} order states, from the one that needs somebody to the one that does not
 * @returns {Group}
 */
export function treeOf(services, order) {
  const root = group("/");
  for (const service of services) {
    const steps = service.id.split("/").filter(Boolean).slice(0, -1);
    let at = root;
    add(at, service, order);
    for (const step of steps) {
      const id = `${at.id === "/" ? "" : at.id}/${step}`;
      let next = at.groups.find((one) => one.id === id);
      if (!next) at.groups.push((next = group(id)));
      at = next;
      add(at, service, order);
    }
    at.services.push(service);
  }
  return root;
}

/** @param {string} id @returns {Group} */
function group(id) {
  return { id, groups: [], services: [], count: 0, gpus: 0, running: 0, wanted: 0, word: "" };
}

/** @param {Group} at changed in place @param {Service} service @param {string[]} order */
function add(at, service, order) {
  at.count += 1;
  at.gpus += service.gpus * service.wanted;
  at.running += service.running;
  at.wanted += service.wanted;
  if (at.word === "" || order.indexOf(service.word) < order.indexOf(at.word)) at.word = service.word;
}
