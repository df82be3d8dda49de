// What the page knows and how news change it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { EMPTY, KEPT_EVENTS, withApp, withEvents, withSnapshot } from "../../../mesos_gpu/ui/static/core/reducer.js";
import { suspensionOf } from "../../../mesos_gpu/ui/static/core/suspensions.js";
import { selected, services, topReason } from "../../../mesos_gpu/ui/static/core/services.js";

const task = (id, appId, more = {}) => ({ id, appId, state: "TASK_RUNNING", host: "m1", ...more });
const app = (id, more = {}) => ({ id, instances: 1, cpus: 1, mem: 64, gpus: 0, labels: {}, tasks: [], ...more });
const event = (type, body) => ({ type, body, at: "2026-01-01T00:00:00Z" });
const of = (apps, more = {}) => withSnapshot(EMPTY, { apps, pods: [], jobs: [], queue: [], deployments: [], info: {}, ...more });

test("a snapshot replaces what was known, and what it leaves out stays", () => {
  const state = of([app("/a", { tasks: [task("a.1", "/a")] })]);
  assert.equal(state.loaded, true);
  assert.equal(state.tasks.get("a.1").host, "m1");
  assert.equal(state.apps.get("/a").tasks, undefined);
  const later = withSnapshot(state, { deployments: [{ id: "d" }] });
  assert.deepEqual([...later.apps.keys()], ["/a"]);
  assert.equal(later.deployments.length, 1);
  assert.equal(state.deployments.length, 0);
});

test("an app that was asked again brings its tasks, and one that is gone takes them along", () => {
  const state = of([app("/a", { tasks: [task("a.1", "/a")] }), app("/b", { tasks: [task("b.1", "/b")] })]);
  const changed = withApp(state, "/a", app("/a", { tasks: [task("a.2", "/a")] }));
  assert.deepEqual([...changed.tasks.keys()].sort(), ["a.2", "b.1"]);
  const gone = withApp(changed, "/a", null);
  assert.deepEqual([[...gone.apps.keys()], [...gone.tasks.keys()]], [["/b"], ["b.1"]]);
});

test("a status changes its task at once, ends it, or brings a new one", () => {
  const state = of([app("/a", { tasks: [task("a.1", "/a", { state: "TASK_STAGING" })] })]);
  const status = (id, taskStatus) => event("status_update_event", { taskId: id, appId: "/a", taskStatus, host: "m2" });
  const running = withEvents(state, [status("a.1", "TASK_RUNNING"), status("a.2", "TASK_STARTING")]);
  assert.equal(running.state.tasks.get("a.1").state, "TASK_RUNNING");
  assert.equal(running.state.tasks.get("a.2").host, "m2");
  assert.deepEqual([...running.stale.apps], ["/a"]);
  assert.equal(state.tasks.get("a.1").state, "TASK_STAGING");
  const ended = withEvents(running.state, [status("a.1", "TASK_FAILED")]);
  assert.equal(ended.state.tasks.has("a.1"), false);
});

test("each kind of event says what is to be asked again", () => {
  const stale = (type, body = {}) => withEvents(EMPTY, [event(type, body)]).stale;
  assert.equal(stale("pod_created_event").pods, true);
  assert.equal(stale("job_run_started").jobs, true);
  const plan = { steps: [{ actions: [{ app: "/x" }, { pod: "/y" }, {}] }] };
  const deployed = stale("deployment_success", { plan });
  assert.deepEqual([deployed.deployments, deployed.queue, [...deployed.apps]], [true, true, ["/x", "/y"]]);
  assert.deepEqual([...stale("api_post_event", { appDefinition: { id: "/z" } }).apps], ["/z"]);
  assert.deepEqual([...stale("instance_changed_event", { runSpecId: "z" }).apps], ["/z"]);
  assert.deepEqual([...stale("event_stream_attached").apps], []);
});

test("events are kept, but not for ever", () => {
  let state = EMPTY;
  for (let i = 0; i < KEPT_EVENTS + 20; i++) ({ state } = withEvents(state, [event("x_event", { i })]));
  assert.equal(state.events.length, KEPT_EVENTS);
  assert.equal(state.events.at(-1).body.i, KEPT_EVENTS + 19);
  assert.equal(withEvents(state, [event("event_stream_attached", {})]).state.events.length, KEPT_EVENTS);
});

const queued = (more) => ({ app: { id: "/a" }, count: 1, processedOffersSummary: { rejectSummaryLastOffers: [] }, ...more });
const lacks = { processedOffersCount: 2, rejectSummaryLastOffers: [{ reason: "InsufficientCpus", declined: 1, processed: 3 }, { reason: "InsufficientGpus", declined: 2, processed: 2 }] };
const WORDS = [
  ["running", app("/a", { tasks: [task("1", "/a")] }), {}, "why.all"],
  ["starting", app("/a", { instances: 2, tasks: [task("1", "/a")] }), {}, "why.starting"],
  ["suspended", app("/a", { instances: 0 }), {}, "why.suspended"],
  ["unhealthy", app("/a", { tasks: [task("1", "/a", { healthCheckResults: [{ alive: false }] })] }), {}, "why.unhealthy"],
  ["running", app("/a", { tasks: [task("1", "/a", { healthCheckResults: [{ alive: true }] })] }), {}, "why.all"],
  ["deploying", app("/a"), { deployments: [{ id: "d", affectedApps: ["/a"], currentStep: 1, totalSteps: 2 }] }, "why.step"],
  ["waiting", app("/a"), { queue: [queued({})] }, "why.waits"],
  ["waiting", app("/a"), { queue: [queued({ processedOffersSummary: { processedOffersCount: 3 } })] }, "why.noOffer"],
  ["waiting", app("/a"), { queue: [queued({ processedOffersSummary: lacks })] }, "why.lacks"],
  ["delayed", app("/a"), { queue: [queued({ delay: { timeLeftSeconds: 5 } })] }, "why.delayed"],
  ["delayed", app("/a", { lastTaskFailure: { message: "boom" } }), { queue: [queued({ delay: { timeLeftSeconds: 5 } })] }, "why.delayedAfter"],
];
for (const [word, one, more, reason] of WORDS) {
  test(`an app is ${word} because of ${reason}`, () => {
    const [found] = services(of([one], more));
    assert.equal(found.word, word);
    assert.equal(found.reason[0], reason);
  });
}

test("what offers lacked most is named", () => {
  assert.equal(topReason(queued({ processedOffersSummary: lacks })), "InsufficientGpus");
  assert.equal(topReason({}), null);
});

test("pods and jobs are services in the same words", () => {
  const pod = { id: "/p", instances: [{ status: "STABLE" }], spec: { scaling: { instances: 2 }, containers: [{ resources: { gpus: 1, cpus: 1, mem: 1 } }, { resources: { gpus: 2 } }], scheduling: { placement: { constraints: [{ fieldName: "gpu_model", operator: "IS", value: "A100" }] } } } };
  const found = services(of([], { pods: [pod], jobs: [{ id: "j", run: { gpus: 1 }, activeRuns: [{}] }, { id: "k" }] }));
  assert.deepEqual(
    found.map((one) => [one.id, one.kind, one.word, one.gpus]),
    [["/p", "pod", "starting", 3], ["j", "job", "running", 1], ["k", "job", "idle", 0]],
  );
  assert.deepEqual(found[0].models, ["A100"]);
});

test("filters select by name, label, state, kind and GPUs", () => {
  const all = services(of([app("/a/web", { gpus: 1, tasks: [task("1", "/a/web")], labels: { team: "Red" }, constraints: [["gpu_model", "LIKE", "V100"]] }), app("/b", { instances: 0 })]));
  const ids = (query) => selected(all, query).map((one) => one.id);
  assert.deepEqual(ids({}), ["/a/web", "/b"]);
  assert.deepEqual(ids({ q: "WEB a" }), ["/a/web"]);
  assert.deepEqual(ids({ q: "team:red" }), ["/a/web"]);
  assert.deepEqual(ids({ state: "suspended" }), ["/b"]);
  assert.deepEqual(ids({ kind: "pod" }), []);
  assert.deepEqual(ids({ gpu: "1" }), ["/a/web"]);
  assert.deepEqual(all[0].models, ["V100"]);
});

for (const [state, more, said] of [
  ["runs", {}, []],
  ["was asked", { suspension: { state: "asked", for: "/b" } }, [["suspension.asked", { taker: "/b" }]]],
  ["was asked in vain", { suspension: { state: "asked", for: "/b", unanswered: 1 } }, [["suspension.asked", { taker: "/b" }], ["suspension.silent", {}]]],
  ["is away", { suspension: { state: "suspended", for: "/b" } }, [["suspension.away", { taker: "/b" }]]],
  ["comes back", { suspension: { state: "resuming", for: "/b" } }, [["suspension.away", { taker: "/b" }]]],
  ["is away by hand", { suspension: { state: "suspended", for: null } }, [["suspension.byHand", {}]]],
  ["refused", { suspensionRefused: { what: "suspend", reason: "no", for: "/b" } }, [["suspension.notSuspended", { taker: "/b", reason: "no" }]]],
  [
    "stays away",
    { suspension: { state: "suspended", for: "/b" }, suspensionRefused: { what: "resume", reason: "no", for: "/b" } },
    [["suspension.away", { taker: "/b" }], ["suspension.notResumed", { taker: "/b", reason: "no" }]],
  ],
]) {
  test(`a task that ${state} says that of its suspension`, () => assert.deepEqual(suspensionOf(task("a.1", "/a", more)), said));
}
