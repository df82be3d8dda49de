/** What a change will do, said before it is done: which instances restart, which GPUs it needs, what has to wait. */
import { ordered } from "./diff.js";

/** @typedef {import("./types.js").Json} Json */
/** @typedef {import("./types.js").Agent} Agent */
/** @typedef {[string, Record<string, any>]} Sentence key and values */

/**
 * Returns how many instances there is room for now, by what agents have free of everything that one asks for.
 * @param {Json} wish an app's cpus, mem, disk and gpus
 * @param {Agent[]} agents
 * @returns {number}
 */
export function room(wish, agents) {
  let found = 0;
  for (const agent of agents) {
    if (!agent.active || agent.deactivated || agent.drain_info) continue;
    const fits = ["cpus", "mem", "disk", "gpus"].map((name) => {
      const asked = wish[name] ?? 0;
      const free = (agent.resources[name] ?? 0) - (agent.used_resources[name] ?? 0);
      return asked > 0 ? Math.floor((free + 1e-6) / asked) : Infinity;
    });
    found += Math.max(0, Math.min(...fits));
  }
  return found;
}

/**
 * @param {Json | null} before the app as it is; null: there is none yet
 * @param {Json} after
 * @param {Agent[]} agents
 * @param {number} running instances of it
 * @returns {Sentence[]}
 */
export function changePlan(before, after, agents, running) {
  const wanted = Number(after.instances ?? 1);
  const gpus = Number(after.gpus ?? 0);
  const there = before ? Number(before.instances ?? 0) : 0;
  /** @type {Sentence[]} */
  const said = [];
  const { instances: _a, ...configuration } = after;
  const { instances: _b, ...old } = before ?? {};
  const replaced = before !== null && ordered(configuration) !== ordered(old);
  const more = replaced ? wanted : Math.max(0, wanted - there);
  if (before === null) said.push(["plan.starts", { count: wanted }]);
  else if (replaced) said.push(running > 0 ? ["plan.replaces", { count: running }] : ["plan.nothingRuns", {}]);
  if (!replaced && wanted > there && before !== null) said.push(["plan.more", { count: wanted - there }]);
  if (wanted < there) said.push(["plan.fewer", { count: there - wanted }]);
  if (before !== null && !replaced && wanted === there) said.push(["plan.same", {}]);
  if (gpus > 0 && more > 0) said.push(["plan.gpus", { count: more * gpus }]);
  if (more > 0 && agents.length > 0) said.push(...placed(after, agents, more, replaced ? running : 0));
  return said;
}

/**
 * @param {Json} wish
 * @param {Agent[]} agents
 * @param {number} more
 * @param {number} running old instances, which give way in the end
 * @returns {Sentence[]}
 */
function placed(wish, agents, more, running) {
  const now = Math.min(more, room(wish, agents));
  if (now === more) return [["plan.allFit", { count: more }]];
  if (running > 0) {
    const capacity = wish.upgradeStrategy?.minimumHealthCapacity ?? 1;
    if (now === 0 && capacity === 1) return [["plan.blocked", {}]];
    return [["plan.inTurn", { count: now }]];
  }
  return [["plan.someWait", { now, wait: more - now }]];
}

/**
 * Returns which GPUs those that start on a machine get, and whether these share NVLink, where that is known.
 * @param {Json} start one of the `starts` of a plan
 * @returns {Sentence[]}
 */
export function cardsOf(start) {
  return (start.cards ?? []).map((/** @type {{indices: number[], nvlink: boolean | null}} */ each) => {
    const word = each.nvlink === null ? "planned.cards" : each.nvlink ? "planned.linked" : "planned.apart";
    return [word, { cards: each.indices.join("+") }];
  });
}

/**
 * Returns the machines on which something starts after a change, each with which of its GPUs it gets.
 * @param {Json} change what `why` names as the smallest change
 * @returns {[string, Sentence[]][]}
 */
export function placesOf(change) {
  const hosts = (change.agent ?? "").split(", ").filter(Boolean);
  return hosts.map((/** @type {string} */ host) => [host, cardsOf({ cards: (change.cards ?? []).filter((/** @type {Json} */ one) => one.host === host) })]);
}

/**
 * Returns what draining a machine moves.
 * @param {string} agentId
 * @param {Iterable<import("./types.js").Task>} tasks
 * @param {Agent | undefined} agent
 * @returns {Sentence[]}
 */
export function drainPlan(agentId, tasks, agent) {
  const mine = [...tasks].filter((task) => task.slaveId === agentId);
  const apps = [...new Set(mine.map((task) => task.appId))];
  /** @type {Sentence[]} */
  const said = [["plan.drain", { count: mine.length }]];
  if (apps.length > 0) said.push(["plan.drainApps", { names: apps.slice(0, 5).join(", ") + (apps.length > 5 ? " …" : "") }]);
  const gpus = agent?.used_resources.gpus ?? 0;
  if (gpus > 0) said.push(["plan.drainGpus", { count: gpus }]);
  said.push(["plan.drainAfter", {}]);
  return said;
}
