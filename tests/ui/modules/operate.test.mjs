// Owners, runs, groups, maintenance, quota, topology: values in, values out.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBase64, toBase64 } from "../../../mesos_gpu/ui/static/core/bytes.js";
import { problemsOf } from "../../../mesos_gpu/ui/static/core/form.js";
import { linkWord, sharedUnits } from "../../../mesos_gpu/ui/static/core/gpus.js";
import { machineId, quotaConfig, quotaPlan, rescheduled, windowsOf } from "../../../mesos_gpu/ui/static/core/operate.js";
import { containersOf, documentOf, NEW, ownerOf, podAsApp, runsOf } from "../../../mesos_gpu/ui/static/core/owners.js";
import { changePlan } from "../../../mesos_gpu/ui/static/core/plan.js";
import { EMPTY, withEvents } from "../../../mesos_gpu/ui/static/core/reducer.js";
import { treeOf } from "../../../mesos_gpu/ui/static/core/tree.js";

const POD = {
  id: "/team/pod",
  spec: { id: "/team/pod", version: "1", scaling: { instances: 2 }, executorResources: { cpus: 0.1 }, containers: [{ name: "a", resources: { cpus: 1, gpus: 2 } }, { name: "b", resources: { cpus: 0.5 } }] },
  instances: [{ id: "team_pod.instance-1", status: "STABLE", agentId: "S0", agentHostname: "m0", containers: [{ name: "a", status: "TASK_RUNNING", containerId: "team_pod.instance-1.a" }, { name: "b", status: "TASK_STAGING" }] }],
};
const STATE = { ...EMPTY, apps: new Map([["/web", { id: "/web" }]]), tasks: new Map([["web.1", { id: "web.1", appId: "/web", state: "TASK_RUNNING" }]]), pods: new Map([[POD.id, POD]]), jobs: new Map([["a.nightly", {}]]) };

test("a task is an app's, a pod's, a job's or nobody's", () => {
  assert.deepEqual(ownerOf(STATE, "web.1"), { kind: "app", id: "/web", instance: "", run: "" });
  assert.deepEqual(ownerOf(STATE, "team_pod.instance-1.a"), { kind: "pod", id: "/team/pod", instance: "team_pod.instance-1", run: "" });
  const run = "20261122223342AFfMY";
  assert.deepEqual(ownerOf(STATE, `a_nightly_${run}.instance-88de60b6._app.1`), { kind: "job", id: "a.nightly", instance: "", run });
  assert.equal(ownerOf(STATE, `b_${run}.instance-88de60b6._app.1`), null);
  assert.equal(ownerOf(STATE, "spark.1"), null);
});

test("what happens to a run is news of its job, and of no app", () => {
  const body = { taskId: "t", taskStatus: "TASK_RUNNING", appId: "/a/nightly/20261122223342AFfMY" };
  const { state, stale } = withEvents(STATE, [{ type: "status_update_event", body, at: "x" }]);
  assert.deepEqual([stale.jobs, stale.apps.size, state.tasks.has("t"), state.events.length], [true, 0, false, 1]);
  assert.equal(withEvents(STATE, [{ type: "status_update_event", body: { ...body, appId: "/a/other/x" }, at: "x" }]).stale.apps.size, 1);
});

test("containers of a pod know their machine", () => {
  const [a, b] = containersOf(POD);
  assert.deepEqual([a.task, a.agent, a.host, a.state, a.instance], ["team_pod.instance-1.a", "S0", "m0", "TASK_RUNNING", "team_pod.instance-1"]);
  assert.equal(b.task, "");
  assert.deepEqual(containersOf(undefined), []);
});

test("a pod is planned as an app with the sum of its containers", () => {
  const app = podAsApp(POD.spec);
  assert.deepEqual([app.instances, app.cpus, app.gpus, app.scaling], [2, 1.6, 2, undefined]);
  assert.deepEqual(changePlan(app, { ...app, instances: 3 }, [], 2), [["plan.more", { count: 1 }], ["plan.gpus", { count: 2 }]]);
  assert.equal(podAsApp({}).instances, 1);
});

test("what is sent back has nothing that was only shown", () => {
  assert.deepEqual(documentOf("pod", { id: "/p", version: "1" }), { id: "/p" });
  assert.deepEqual(documentOf("job", { id: "j", activeRuns: [], historySummary: {}, schedules: [{ id: "s", nextRunAt: "x" }] }), { id: "j", schedules: [{ id: "s" }] });
  assert.deepEqual(documentOf("job", { id: "j" }), { id: "j" });
  assert.deepEqual(documentOf("app", { id: "/a", tasks: [] }), { id: "/a" });
  assert.deepEqual(documentOf("pod", NEW.pod), NEW.pod);
});

test("runs that go on come first, then the latest", () => {
  const history = { successfulFinishedRuns: [{ id: "1", finishedAt: "a", tasks: ["t"] }], failedFinishedRuns: [{ id: "2", finishedAt: "b" }, { id: "3", finishedAt: "c" }] };
  const found = runsOf({ activeRuns: [{ id: "3", status: "ACTIVE", tasks: [{ id: "u" }] }, { id: "4", status: "INITIAL" }] }, history);
  assert.deepEqual(found.map((run) => [run.id, run.key]), [["3", "run.active"], ["4", "run.starting"], ["2", "run.failed"], ["1", "run.finished"]]);
  assert.deepEqual(found[0].tasks, ["u"]);
  assert.deepEqual(runsOf(undefined, undefined), []);
});

test("groups have the sums of what is below them, and the state that most needs somebody", () => {
  const service = (id, word, gpus) => ({ id, word, gpus, wanted: 2, running: 1, kind: "app" });
  const root = treeOf([service("/a/x", "running", 1), service("/a/b/y", "waiting", 2), service("/z", "idle", 0)], ["waiting", "running", "idle"]);
  assert.deepEqual([root.count, root.gpus, root.word], [3, 6, "waiting"]);
  assert.deepEqual(root.groups.map((one) => [one.id, one.count, one.groups[0].id]), [["/a", 2, "/a/b"]]);
  assert.deepEqual(root.services.map((one) => one.id), ["/z"]);
});

const MACHINE = { hostname: "m0", ip: "10.0.0.1" };
test("a machine is named by its host and address", () => {
  assert.deepEqual(machineId({ hostname: "m0", pid: "slave(1)@10.0.0.1:5051" }), MACHINE);
  assert.deepEqual(machineId({ hostname: "m0", pid: "slave(1)@[::1]:5051" }), { hostname: "m0", ip: "::1" });
});

test("a time of maintenance takes the place of the one before, and others stay", () => {
  const other = { machine_ids: [{ hostname: "m9", ip: "10.0.0.9" }], unavailability: { start: { nanoseconds: 5e6 } } };
  const before = { windows: [{ machine_ids: [{ hostname: "M0", ip: "10.0.0.1" }], unavailability: {} }, other] };
  const after = rescheduled(before, MACHINE, { start: 1000, hours: 2 });
  assert.deepEqual(after.windows[0], other);
  assert.deepEqual(after.windows[1], { machine_ids: [MACHINE], unavailability: { start: { nanoseconds: 1e9 }, duration: { nanoseconds: 7200e9 } } });
  assert.deepEqual(rescheduled(after, MACHINE, null), { windows: [other] });
  assert.deepEqual(rescheduled(null, MACHINE, null), { windows: [] });
});

test("times of maintenance are told with the machines that are down", () => {
  const schedule = rescheduled({ windows: [{ machine_ids: [{ hostname: "m9" }], unavailability: { start: { nanoseconds: 5e9 } } }] }, MACHINE, { start: 1000, hours: 1 });
  const found = windowsOf(schedule, { down_machines: [MACHINE] });
  assert.deepEqual(found.map((one) => [one.machine.hostname, one.start, one.end, one.down]), [["m0", 1000, 3_601_000, true], ["m9", 5000, null, false]]);
  assert.deepEqual(windowsOf(null, null), []);
});

test("a quota is what was typed", () => {
  const { config, wrong } = quotaConfig("r", { gpus: "4", cpus: "" }, { gpus: "2" });
  assert.deepEqual(config, { role: "r", limits: { gpus: { value: 4 } }, guarantees: { gpus: { value: 2 } } });
  assert.deepEqual(wrong, []);
});

test("what is no quota is named", () => {
  assert.deepEqual(quotaConfig("r", { gpus: "-1", cpus: "x", mem: "1", disk: "1" }, { mem: "2" }).wrong, ["gpus", "cpus", "mem"]);
});

test("a quota says what it does to what is in use", () => {
  const { config } = quotaConfig("r", { gpus: "1" }, { gpus: "1" });
  assert.deepEqual(quotaPlan({ quota: { consumed: { gpus: 2 } } }, config).map(([key]) => key), ["quota.limits", "quota.guarantees", "quota.over"]);
  assert.deepEqual(quotaPlan(undefined, quotaConfig("r", {}, {}).config), [["quota.noLimits", {}]]);
});

test("ways between GPUs have the words of nvidia-smi", () => {
  assert.deepEqual([linkWord({ nvlinks: 4, level: 10 }), linkWord({ nvlinks: 0, level: 30 }), linkWord({ level: 7 }), linkWord(undefined)], ["NV4", "PHB", "SYS", "–"]);
});

test("a shared card says how much of it is given", () => {
  assert.deepEqual(sharedUnits({ mem_units: 16, containers: [{ mem_units: 4 }, {}] }), { given: 4, all: 16 });
  assert.deepEqual(sharedUnits({}), { given: 0, all: 0 });
});

test("bytes go through text and back, many and few", () => {
  const many = Uint8Array.from({ length: 20_000 }, (_, i) => i % 256);
  assert.deepEqual(fromBase64(toBase64([many.subarray(0, 7), many.subarray(7)])), many);
  assert.equal(toBase64([]), "");
});

test("advice stands at its field", () => {
  const found = problemsOf({ problems: [{ path: "/gpus", message: "`gpus` must be whole", advice: "write 1" }, { path: "/gpu", message: "no such key" }] });
  assert.deepEqual(found, { fields: { gpus: "`gpus` must be whole: write 1" }, others: ["/gpu: no such key"] });
});
