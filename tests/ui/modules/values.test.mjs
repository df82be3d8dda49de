// Forms, plans, differences, addresses, colours, numbers: values in, values out.
import assert from "node:assert/strict";
import { test } from "node:test";
import { lines, pieces } from "../../../mesos_gpu/ui/static/core/ansi.js";
import { diff, ordered } from "../../../mesos_gpu/ui/static/core/diff.js";
import { definition, formOf, NEW_APP, problemsOf, written } from "../../../mesos_gpu/ui/static/core/form.js";
import { bytes, duration, memory, millis, plain, shortId, webLink } from "../../../mesos_gpu/ui/static/core/format.js";
import { funnel } from "../../../mesos_gpu/ui/static/core/funnel.js";
import { idleSince, totals, useOf } from "../../../mesos_gpu/ui/static/core/gpus.js";
import { cardsOf, changePlan, drainPlan, placesOf, room } from "../../../mesos_gpu/ui/static/core/plan.js";
import { SUMS, clock, named, percent, usageAsked } from "../../../mesos_gpu/ui/static/core/usage.js";
import { link, parseRoute } from "../../../mesos_gpu/ui/static/core/route.js";
import { sandboxOf } from "../../../mesos_gpu/ui/static/core/sandbox.js";
import { SseDecoder } from "../../../mesos_gpu/ui/static/core/sse.js";
import { languageOf, sentence } from "../../../mesos_gpu/ui/static/core/words.js";

const DOCUMENTS = [
  NEW_APP,
  {},
  { id: "/x", env: { A: "1=2", B: { secret: "s" }, C: "two\nlines \\ and" }, labels: { a: "" }, unknown: [1, { deep: null }] },
  { id: "/x", container: { type: "MESOS", docker: { image: "a:1", forcePullImage: true }, volumes: [{}] }, gpus: 2 },
  { id: "/x", container: { type: "DOCKER", docker: { image: "a:1" } }, constraints: [["hostname", "UNIQUE"], ["gpu_model", "LIKE", "A.*"]] },
  { id: "/x", gang: { size: 2 }, priority: 0 },
  { id: 3, container: null, constraints: "x", env: [], cpus: "half" },
];
test("a form that was not touched changes no document, whatever is in it", () => {
  for (const document of DOCUMENTS) assert.deepEqual(written(document, formOf(document)), document);
});

test("what is typed into the form is what the document says, and the rest stays", () => {
  const before = DOCUMENTS[2];
  const form = { ...formOf(before), cmd: "sleep 1", cpus: "0.5", gpus: "x", env: "A=b=c\nN=1\\n2\n" };
  assert.deepEqual(written(before, form), { ...before, cmd: "sleep 1", cpus: 0.5, gpus: "x", env: { A: "b=c", N: "1\n2", B: { secret: "s" } } });
  assert.equal("cmd" in written({ cmd: "x" }, { ...formOf({ cmd: "x" }), cmd: "" }), false);
});

test("gangs and priorities come and go, and what the form does not show of them stays", () => {
  const before = { id: "/x", gang: { size: 2, onFailure: "END" }, priority: 3 };
  assert.deepEqual([formOf(before).gangSize, formOf(before).priority], ["2", "3"]);
  assert.deepEqual(written(before, { ...formOf(before), gangSize: "4", priority: "" }), { id: "/x", gang: { size: 4, onFailure: "END" } });
  assert.deepEqual(written(before, { ...formOf(before), gangSize: "" }), { id: "/x", priority: 3 });
  assert.deepEqual(written({}, { ...formOf({}), gangSize: "2" }), { gang: { size: 2 } });
  const { fields } = problemsOf({ details: [{ path: "/gang/size", errors: ["too small"] }] });
  assert.deepEqual(fields, { gangSize: "too small" });
});

test("containers come and go with where the app runs", () => {
  const inImage = written({ gpus: 1 }, { ...formOf({ gpus: 1 }), runtime: "MESOS", image: "cuda" });
  assert.deepEqual(inImage, { gpus: 1, container: { type: "MESOS", docker: { image: "cuda" } } });
  const inDocker = written(inImage, { ...formOf(inImage), runtime: "DOCKER" });
  assert.deepEqual(inDocker, { gpus: 0, container: { type: "DOCKER", docker: { image: "cuda" } } });
  assert.deepEqual(written(inImage, { ...formOf(inImage), runtime: "none" }), { gpus: 1 });
});

test("a model of GPU is a constraint beside the others", () => {
  const before = { constraints: [["hostname", "UNIQUE"]] };
  const after = written(before, { ...formOf(before), gpuModel: "A100" });
  assert.deepEqual(after.constraints, [["hostname", "UNIQUE"], ["gpu_model", "LIKE", "A100"]]);
  assert.equal(formOf(after).gpuModel, "A100");
  assert.deepEqual(written(after, { ...formOf(after), gpuModel: "" }), before);
});

test("what Marathon adds is no part of a definition", () => {
  assert.deepEqual(definition({ id: "/a", cpus: 1, tasks: [], version: "v", tasksRunning: 1 }), { id: "/a", cpus: 1 });
});

test("refusals stand at their fields", () => {
  const body = { details: [{ path: "/gpus", errors: ["a", "b"] }, { path: "/container/docker", errors: ["c"] }, { path: "/foo", errors: ["d"] }, { path: "/", errors: ["e"] }] };
  assert.deepEqual(problemsOf(body), { fields: { gpus: "a b", image: "c" }, others: ["/foo: d", "e"] });
  assert.deepEqual(problemsOf(null), { fields: {}, others: [] });
});

const agent = (gpus, used, more = {}) => ({ id: "S0", active: true, resources: { gpus, cpus: 8, mem: 1000 }, used_resources: { gpus: used, cpus: 0, mem: 0 }, ...more });
test("there is room where everything that is asked for is free", () => {
  assert.equal(room({ gpus: 2 }, [agent(4, 1), agent(8, 0)]), 5);
  assert.equal(room({ gpus: 1, cpus: 3 }, [agent(4, 0)]), 2);
  assert.equal(room({ gpus: 1 }, [agent(4, 0, { active: false }), agent(4, 0, { deactivated: true }), agent(1, 3)]), 0);
});

const PLANS = [
  [null, { instances: 2, gpus: 1 }, 0, ["plan.starts", "plan.gpus", "plan.allFit"]],
  [null, { instances: 6, gpus: 1 }, 0, ["plan.starts", "plan.gpus", "plan.someWait"]],
  [{ instances: 1 }, { instances: 3 }, 1, ["plan.more", "plan.allFit"]],
  [{ instances: 3 }, { instances: 1 }, 3, ["plan.fewer"]],
  [{ instances: 1 }, { instances: 1 }, 1, ["plan.same"]],
  [{ instances: 1, cmd: "a" }, { instances: 1, cmd: "b" }, 1, ["plan.replaces", "plan.allFit"]],
  [{ instances: 1, cmd: "a" }, { instances: 1, cmd: "b" }, 0, ["plan.nothingRuns", "plan.allFit"]],
  [{ instances: 4, gpus: 4, cmd: "a" }, { instances: 4, gpus: 4, cmd: "b" }, 4, ["plan.replaces", "plan.gpus", "plan.inTurn"]],
  [{ instances: 1, gpus: 5, cmd: "a" }, { instances: 1, gpus: 5, cmd: "b" }, 1, ["plan.replaces", "plan.gpus", "plan.blocked"]],
];
for (const [before, after, running, keys] of PLANS) {
  test(`a plan from ${JSON.stringify(before)} to ${JSON.stringify(after)}`, () => {
    assert.deepEqual(changePlan(before, after, [agent(4, 0)], running).map(([key]) => key), keys);
  });
}

test("draining says what moves", () => {
  const tasks = [{ id: "1", appId: "/a", slaveId: "S0" }, { id: "2", appId: "/b", slaveId: "S1" }];
  assert.deepEqual(drainPlan("S0", tasks, agent(4, 2)).map(([key]) => key), ["plan.drain", "plan.drainApps", "plan.drainGpus", "plan.drainAfter"]);
  assert.deepEqual(drainPlan("S9", tasks, undefined).map(([key]) => key), ["plan.drain", "plan.drainAfter"]);
});

test("differences are the shortest way from one text to the other", () => {
  const shown = diff("a\nb\nc", "a\nx\nc\nd").map(({ kind, text }) => `${kind} ${text}`);
  assert.deepEqual(shown, ["same a", "remove b", "add x", "same c", "add d"]);
  assert.equal(ordered({ b: [{ d: 1, c: 2 }], a: null }), ordered({ a: null, b: [{ c: 2, d: 1 }] }));
});

test("addresses lead where they came from", () => {
  for (const id of ["/team/web", "/a b/ü?#%", "/x"]) assert.deepEqual(parseRoute(link("services", id, { tab: "why", q: "" })), { page: "services", id, query: { tab: "why" } });
  assert.deepEqual(parseRoute(""), { page: "overview", id: "", query: {} });
  assert.equal(parseRoute("#/services/%zz").id, "/%zz");
});

test("colours of terminals become names, and other sequences vanish", () => {
  assert.deepEqual(pieces("a\u001b[1;31mred\u001b[0m b\u001b[2K\u001b]0;title\u0007c"), [
    { text: "a", style: "" },
    { text: "red", style: "ansi-bold ansi-red" },
    { text: " b", style: "" },
    { text: "c", style: "" },
  ]);
  assert.deepEqual(pieces("\u001b[38;5;31mx\u001b[92my\u001b[22;39mz\u001b").map((one) => one.style), ["", "ansi-green", ""]);
  assert.deepEqual(lines("10%\r20%\r\nend\n"), ["20%", "end", ""]);
});

test("numbers, times and names are for people", () => {
  assert.deepEqual([memory(512), memory(1536), memory(2 ** 21), memory(NaN)], ["512 MiB", "1.5 GiB", "2 TiB", "–"]);
  assert.deepEqual([bytes(5), bytes(2048), bytes(2 ** 41)], ["5 B", "2 KiB", "2 TiB"]);
  assert.deepEqual([duration(-1), duration(61), duration(7200), duration(9e5)], [[0, "s"], [1, "min"], [2, "h"], [10, "d"]]);
  assert.deepEqual([millis(1.5), millis("1970-01-01T00:00:01Z"), millis("")], [1500, 1000, NaN]);
  assert.equal(shortId("web.instance-0b5f4f48-9194-5c36-a535-b0c1f1cb99b6._app.1"), "0b5f4f48");
  assert.equal(shortId("x".repeat(40)).length, 25);
  assert.equal(plain("a\u202eb\u0000"), "a‹202e›b‹0000›");
  assert.deepEqual([webLink("https://x/"), webLink("javascript:alert(1)"), webLink("x"), webLink(1)], ["https://x/", null, null, null]);
});

test("of the offers that came some are left after each wish", () => {
  const queued = { processedOffersSummary: { rejectSummaryLastOffers: [{ reason: "InsufficientGpus", declined: 2, processed: 5 }] } };
  assert.deepEqual(funnel(queued, "rejectSummaryLastOffers"), [{ reason: "InsufficientGpus", came: 5, left: 3 }]);
  assert.deepEqual(funnel(undefined, "rejectSummaryLaunchAttempt"), []);
});

test("a GPU that is held and does nothing is noticed from then on, until it works or changes hands", () => {
  const gpu = { uuid: "G", task_id: "t", utilization_percent: 0 };
  const first = idleSince(new Map(), [gpu], 1000);
  assert.equal(idleSince(first, [gpu], 9000).get("G").since, 1000);
  assert.equal(idleSince(first, [{ ...gpu, task_id: "u" }], 9000).get("G").since, 9000);
  assert.equal(idleSince(first, [{ ...gpu, utilization_percent: 50 }], 9000).has("G"), false);
  assert.equal(idleSince(first, [{ uuid: "G", utilization_percent: 0 }], 9000).has("G"), false);
  assert.equal(idleSince(new Map(), [{ uuid: "G", task_id: "t" }], 1).has("G"), false);
  assert.deepEqual([useOf({ condition: "ill" }), useOf(gpu), useOf({ condition: "healthy" })], ["ill", "held", "free"]);
  assert.deepEqual(totals([gpu, {}]), { all: 2, free: 1, held: 1, ill: 0 });
});

test("a task's sandbox is its executor's, or its own in that of a group", () => {
  const state = {
    frameworks: [{ executors: [{ id: "t", directory: "/d", tasks: [] }, { id: "e", type: "DEFAULT", directory: "/g", tasks: [{ id: "p" }] }] }],
    completed_frameworks: [{ completed_executors: [{ id: "old", directory: "/o", completed_tasks: [{ id: "old" }] }] }],
  };
  assert.deepEqual(sandboxOf(state, "t"), { directory: "/d", ended: false, task: null });
  assert.equal(sandboxOf(state, "p").directory, "/g/tasks/p");
  assert.equal(sandboxOf(state, "old").ended, true);
  assert.equal(sandboxOf({}, "x"), null);
});

test("a stream of events is the same however it is cut", () => {
  const text = "event: a\ndata: {\ndata: }\n\n:comment\n\ndata:x\r\n\r\n";
  for (let size = 1; size < text.length; size++) {
    const decoder = new SseDecoder();
    const found = [];
    for (let at = 0; at < text.length; at += size) found.push(...decoder.feed(text.slice(at, at + size)));
    assert.deepEqual(found, [{ type: "a", data: "{\n}" }, { type: "message", data: "x" }]);
  }
});

test("sentences take their values, one or many, in the language that a browser asks for", () => {
  const words = { a: "{count|one|# of them} at {place}" };
  assert.equal(sentence(words, "a", { count: 1, place: "x" }), "one at x");
  assert.equal(sentence(words, "a", { count: 3 }), "3 of them at {place}");
  assert.equal(sentence(words, "none"), "none");
  assert.deepEqual([languageOf(["fr", "zh-TW"]), languageOf(["en-GB", "zh"]), languageOf([])], ["zh", "en", "en"]);
});

test("a plan says which GPUs each instance gets, and whether they share NVLink", () => {
  const cards = [{ indices: [0, 1], nvlink: true }, { indices: [2, 3], nvlink: false }, { indices: [4], nvlink: null }];
  assert.deepEqual(cardsOf({ cards }), [
    ["planned.linked", { cards: "0+1" }],
    ["planned.apart", { cards: "2+3" }],
    ["planned.cards", { cards: "4" }],
  ]);
  assert.deepEqual(cardsOf({}), []);
  const here = cards.slice(0, 2).map((one) => ({ host: "g1", ...one }));
  assert.deepEqual(placesOf({ agent: "g1, g2", cards: here }), [["g1", cardsOf({ cards: here })], ["g2", []]]);
  assert.deepEqual(placesOf({ agent: null }), []);
});

const USED_AT = Date.UTC(2026, 10, 16, 7);

test("what is asked for stands in the address, and nothing else may", () => {
  assert.deepEqual(usageAsked({}, USED_AT), { by: "app", since: "7d", path: "v1/usage?by=app&since=2026-11-09T07%3A00%3A00.000Z" });
  assert.equal(usageAsked({ by: "user", since: "4w" }, USED_AT).path, "v1/usage?by=user&since=2026-10-19T07%3A00%3A00.000Z");
  assert.deepEqual(usageAsked({ by: "a&b", since: "9y" }, USED_AT), usageAsked({}, USED_AT));
});

test("hours are written as the command line writes them", () => {
  assert.deepEqual([30.5, 0.5, 0, null].map(clock), ["1-06:30:00", "00:30:00", "00:00:00", "–"]);
  assert.deepEqual([62.5, 0, null].map(percent), ["62.5 %", "0.0 %", "–"]);
});

test("every column writes what was measured, and a dash for what was not", () => {
  const each = { gpuHours: 61, gpuEfficiency: 62.5, gpuIdle: null, cpuHours: 30.5, cpuEfficiency: 80, memMiB: 1024, maxRssMiB: null, maxGpuMemMiB: 9000, elapsedHours: 30.5, tasksEnded: 3 };
  const written = Object.fromEntries(SUMS.map(([key, , write]) => [key, write(each)]));
  assert.deepEqual(written, {
    gpuHours: "61.00",
    gpuEfficiency: "62.5 %",
    gpuIdle: "–",
    cpuHours: "30.50",
    cpuEfficiency: "80.0 %",
    memMiB: "1 GiB",
    maxRssMiB: "–",
    maxGpuMemMiB: "8.8 GiB",
    elapsedHours: "1-06:30:00",
    tasksEnded: "3",
  });
  assert.ok(SUMS.every(([, , write, by]) => write({}) && typeof by({}) === "number"));
});

test("lines are told apart by all that names them", () => {
  assert.equal(named({ app: "/a", role: "r", user: "u" }), "/a · r · u");
  assert.equal(named({ role: "r" }), "r");
});
