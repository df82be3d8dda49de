"""What must be so at every moment, and what must be so once everything has worked again for a while."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.sim import books
from tests.sim.books import LIVE
from tests.sim.insight import Insight
from tests.sim.machine import Container, Machine
from tests.sim.people import GANG, LONE, TIMED
from tests.sim.statuses import Statuses

if TYPE_CHECKING:
    from tests.sim.guest import Guest
    from tests.sim.operators import Operators
    from tests.sim.people import People, Wanted
    from tests.sim.services import Cluster
    from tests.sim.world import World

ENDS = frozenset(("TASK_FINISHED", "TASK_FAILED", "TASK_KILLED", "TASK_ERROR"))
OVER = ENDS | {"TASK_DROPPED", "TASK_GONE", "TASK_LOST"}
BY_A_PROCESS = frozenset(("TASK_FINISHED", "TASK_FAILED", "TASK_KILLED"))
EARLIER = "made by an earlier agent process"
LOOK_S = 120.0
"""How often the judge looks whether there is peace."""
UNTOLD_S = 660.0
"""An update that is not acknowledged is sent again after ten minutes at most, and until then for longer and longer."""
CALM_S = 420.0
"""After so long without any trouble a master, and an agent, know of each other's tasks."""


class Judge:
    """Watches the machines and what Marathon is told."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self.world, self.cluster = world, cluster
        self.begun: Counter[str] = Counter()
        self._ended_s: dict[str, float] = {}
        self._runs: dict[str, str] = {}
        self._last_s: dict[str, float] = {}
        self._told: dict[tuple[str, str], str] = {}
        for machine in cluster.machines.values():
            machine.on_begin = partial(self._begin, machine)
            machine.on_end = self._end
        self.statuses = Statuses(world)
        self.statuses.install()
        self.insight = Insight(world, cluster)
        self.insight.install()
        self.guest: Guest | None = None
        self.operators: Operators | None = None
        cluster.on_status = self._status

    # At every moment.

    def _begin(self, machine: Machine, container: Container) -> None:
        task = container.task
        if self.operators is not None:
            self.operators.begins(machine.host.name, container)
        self.begun[task] += 1
        if self.begun[task] > 1:
            self.world.finding(f"task {task} was started {self.begun[task]} times")
        if task.startswith(LONE):
            others = [name for name in self.running() if name.split(".")[0] == task.split(".")[0] and name != task]
            if others:
                self.world.finding(f"never two of it may run: {task}, {others}")
        if task.startswith(TIMED) and container.executor is None:
            self._timed(task.split("_")[0], task)
        if task.startswith(("job-", TIMED)):
            run = task.split(".")[0]
            first = self._runs.setdefault(run, task)
            if first != task:
                self.world.finding(f"a run was carried out twice: {self._runs[run]}, {task}")

    def _end(self, container: Container) -> None:
        self._ended_s[container.task] = self.world.now_s
        self.insight.ended(container)

    def _untold(self) -> set[str]:
        """Return the tasks that have ended, and whose framework has an update of before that it never acknowledges.

        The end comes after that one. What a master hears until then is the task's newest state, each time that the
        update is sent again. Source: Mesos src/slave/task_status_update_manager.cpp, timeout(); src/slave/slave.cpp,
        forward().
        """
        since_s = self.world.now_s - UNTOLD_S
        return {task for task, ended_s in self._ended_s.items() if ended_s > since_s and self._lazy(task)}

    def _timed(self, job: str, task: str) -> None:
        """A run of a job that never has two at a time begins."""
        self._last_s[job] = self.world.now_s
        others = [name for name in self.running() if name.split("_")[0] == job and name != task]
        if others:
            self.world.finding(f"two runs of {job} at a time: {task}, {others}")

    def timed(self, people: People) -> None:
        """Everything has worked for a while: jobs with schedules have run when they had to."""
        every_s = self.world.pacing.pace.every_s
        for job in people.timed:
            since_s = self.world.now_s - self._last_s.get(job, 0.0)
            # The next time may have been found by a clock that was ahead, by less than is taken to be put right.
            if since_s > 3 * every_s + self.world.ahead_s:
                self.world.finding(f"{job} has not run for {since_s:.0f} s, its cron is every {every_s:.0f} s")

    def _status(self, marathon: str, status: dict[str, Any]) -> None:
        """A framework is told of a task, `status` being a TaskStatus."""
        task, state = status["task_id"]["value"], status["state"]
        self.statuses.told(status)
        self.world.tell("status", f"{task} {state} {status.get('reason', '')} {status.get('message', '')}")
        before = self._told.get((marathon, task))
        if before in ENDS and state in LIVE and "uuid" in status:
            self.world.finding(f"task {task} is {state} after it was {before}")
        if before in (*ENDS, "TASK_RUNNING", "TASK_KILLING") and state == "TASK_DROPPED" and "uuid" in status:
            self.world.finding(f"task {task} is said to have never been launched after it was {before}")
        if status.get("reason") == "REASON_INVALID_OFFERS" and EARLIER in status.get("message", ""):
            self._refused_as_old(task)
        if state in BY_A_PROCESS and self._runs_now(task):
            self.world.finding(f"task {task} is said to be {state} and runs: {status}")
        if "uuid" in status:
            # What the master says by itself is the newest that it knows, and may be before the update of it.
            self._told[marathon, task] = state
            if state in ENDS:
                self.insight.over[task] = state

    def _refused_as_old(self, task: str) -> None:
        """A launch names the version of its agent's resources, which is another for each process of the agent.

        Who has registered a while ago, as each has where nothing has been broken, is known by its own. Source: Mesos
        src/slave/slave.cpp, Slave::run, and src/master/master.cpp, ___reregisterSlave, which takes the version over.
        """
        if self._calm():
            self.world.finding(f"{task} is launched for an earlier process of its agent; each runs for {CALM_S:g} s")

    def _lazy(self, task: str) -> bool:
        return self.guest is not None and self.guest.is_lazy(task)

    def _runs_now(self, task: str) -> bool:
        return task in self.running()

    def running(self) -> dict[str, str]:
        """Return where each task truly runs."""
        return {task: name for name, machine in self.cluster.machines.items() for task in machine.tasks()}

    # While nothing is broken just now.

    async def watch(self) -> None:
        """Look again and again whether a master and agents that were left in peace agree; never ends."""
        before: set[str] = set()
        while True:
            await asyncio.sleep(LOOK_S)
            self.insight.look()
            if not self._calm():
                before = set()
                continue
            now = await self._strangers()
            for said in sorted(now & before):
                self.world.finding(f"{said}, and nothing was broken for {CALM_S + LOOK_S:.0f} s")
            before = now

    def _calm(self) -> bool:
        """Tell whether every service has run, and each could speak with every other, for long enough."""
        since_s, processes = self.world.now_s - CALM_S, self.world.processes
        hosts = [self.cluster.host_of(name) for name in self.cluster.names]
        if self.cluster.zookeeper is not None:
            hosts.append(self.cluster.zookeeper.host)
            if not self.cluster.zookeeper.quorum:
                return False
        for name in self.cluster.names:
            process = processes.get(name)
            if process is None or process.began_s > since_s or process.frozen_until_s > since_s:
                return False
            if process.host.disk.refused_s > since_s:
                return False
        return all(
            self.world.network.quiet_since_s(one, other) < since_s
            for one in hosts
            for other in hosts
            if one is not other
        )

    async def _strangers(self) -> set[str]:
        """Return what the master that leads says of tasks that is not so, and what it does not know."""
        state = await self._leading()
        if state is None:
            return set()
        said = {*self.insight.differences(state), *await self._cards(state)}
        known = {
            task["id"]: task["state"]
            for framework in state["frameworks"]
            for task in framework["tasks"]
            # An end is kept until its framework has heard of it.
            if framework["connected"] or task["state"] not in OVER
        }
        truth = self.running()
        invented = [name for name in known if name not in truth and not self._lazy(name)]
        said |= {f"a master says {known[name]} of {name}, which is nowhere" for name in invented}
        return said | {
            f"a master does not know {name}, which runs on {truth[name]}" for name in set(truth) - set(known)
        }

    async def _cards(self, state: Any) -> set[str]:
        """Return where the books of shared cards are not what is so."""
        machines = self.cluster.machines
        if not self.cluster.shape.shared:
            return set()
        masters = {*books.of_master(state, machines, self._untold()), *books.of_tasks(state, machines)}
        return masters | set(await books.of_agents(self.cluster))

    async def _leading(self) -> Any:
        """Return the state of the first master that answers with its own, None without one."""
        from tests.sim.http import request

        for host in self.cluster.masters:
            try:
                answer = await request(f"{host.ip}:5050", "GET", "/master/state")
            except (OSError, asyncio.TimeoutError):
                continue
            if answer.status == 200:
                return answer.json()
        return None

    # Once everything works again.

    async def settled(self, people: People) -> None:
        """Compare what is so with what everybody says; all of it must be the same by now."""
        truth = self.running()
        state = await self._master(people)
        apps = await people.ask("GET", "/v2/apps?embed=apps.counts")
        pods = await people.ask("GET", "/v2/pods/::status")
        tasks = await people.ask("GET", "/v2/tasks")
        deployments = await people.ask("GET", "/v2/deployments")
        if state is None or apps is None or pods is None or tasks is None or deployments is None:
            self.world.finding("the services do not answer although nothing is broken any more")
            return
        await self._books(state, truth)
        self.statuses.settled({one["id"] for one in state["frameworks"] if one["connected"]}, self._lazy)
        if self.guest is not None:
            self.guest.look()
        # What keeps a place for the next task, with its volume, shows the last one's end.
        told = {task["id"] for task in tasks.json()["tasks"] if task["state"] in LIVE}
        active = {name for name in truth if not name.startswith(("job-", "guest-", TIMED))}
        if set(told) != active:
            self.world.finding(
                f"Marathon knows {sorted(set(told) - active)} too much, {sorted(active - set(told))} not"
            )
        if deployments.json():
            self.world.finding(f"deployments do not end: {json.dumps(deployments.json())[:1500]}")
        self._compare(apps.json()["apps"], pods.json(), people.apps)
        self._gangs()
        await self._jobs(people)
        if self.world.findings:
            # For whoever reads the log.
            for path in ("/v2/queue?embed=lastUnusedOffers", "/v2/apps?embed=apps.tasks"):
                told = await people.ask("GET", path)
                self.world.tell("marathon", f"{path}: {'' if told is None else told.body.decode()}")

    async def compare(self, people: People, apps: Mapping[str, Wanted]) -> None:
        """Compare apps with what was acknowledged of them."""
        found = await people.ask("GET", "/v2/apps?embed=apps.counts")
        pods = await people.ask("GET", "/v2/pods/::status")
        if found is None or pods is None:
            self.world.finding("the services do not answer although nothing is broken any more")
        else:
            self._compare(found.json()["apps"], pods.json(), apps)

    def _compare(self, apps: Any, pods: Any, all_wanted: Mapping[str, Wanted]) -> None:
        known = {app["id"]: (app["instances"], app["tasksRunning"]) for app in apps}
        for pod in pods:
            stable = sum(instance["status"] == "STABLE" for instance in pod["instances"])
            known[pod["id"]] = (pod["spec"]["scaling"]["instances"], stable)
        for name, wanted in all_wanted.items():
            app = known.get(name)
            if not wanted.sure:
                continue
            if app is None:
                self.world.finding(f"{name} was acknowledged and is lost")
            elif app[0] != wanted.instances:
                self.world.finding(f"{name} has {app[0]} instances; acknowledged were {wanted.instances}")
            elif wanted.lasting and app[1] != wanted.instances:
                self.world.finding(f"{name} has {app[1]} running; wanted are {wanted.instances}")

    def _gangs(self) -> None:
        """Members of gangs run together: each start has its own id, and nobody is left of another."""
        members = Counter(
            container.config.environment["GANG_ID"]
            for machine in self.cluster.machines.values()
            for container in machine.running.values()
            if "GANG_ID" in container.config.environment and container.executor is None
        )
        if set(members.values()) - {GANG}:
            self.world.finding(f"gangs are not whole: {dict(members)}")

    async def empty(self, people: People) -> None:
        """Every app was removed: nothing may run, or be taken, any more."""
        if self.running():
            self.world.finding(f"nobody wants these, and they run: {self.running()}")
        state = await self._master(people)
        if state is not None:
            await self._books(state, {})
            for left in books.left_behind(self.cluster):
                self.world.finding(left)
            for agent in state["slaves"]:
                if agent["reserved_resources"]:
                    kept = json.dumps(agent["reserved_resources"])[:500]
                    self.world.finding(f"nobody wants this, and it is reserved on {agent['hostname']}: {kept}")

    async def whole(self, people: People, patience_s: float) -> None:
        """Every GPU can be had again: an app that wants them all runs."""
        body = {"id": "/all", "cmd": "serve", "cpus": 0.1, "mem": 32, "gpus": 1, "instances": people.gpus}
        made = await people.ask("POST", "/v2/apps", body)
        await asyncio.sleep(patience_s)
        found = await people.ask("GET", "/v2/apps//all")
        if made is None or made.status != 201 or found is None or found.status != 200:
            self.world.finding(f"an app that wants all GPUs cannot be made: {made}, {found}")
        elif found.json()["app"]["tasksRunning"] != people.gpus:
            self.world.finding(f"{found.json()['app']['tasksRunning']} of {people.gpus} GPUs can be had again")
        await self._whole_cards(people, patience_s)

    async def _whole_cards(self, people: People, patience_s: float) -> None:
        """All of every shared card can be had again."""
        kinds = {(card.gib, card.slices): 0 for one in self.cluster.machines.values() for card in one.cards.values()}
        for machine in self.cluster.machines.values():
            for card in machine.cards.values():
                kinds[card.gib, card.slices] += 1
        for gib, slices in sorted(kinds):
            part = {"memGiB": gib, "weight": slices, "cardGiB": gib}
            body = {"id": f"/all-{gib}", "cmd": "serve", "cpus": 0.1, "mem": 32, "gpuShare": part}
            await people.ask("POST", "/v2/apps", {**body, "instances": kinds[gib, slices]})
        await asyncio.sleep(patience_s if kinds else 0.0)
        for (gib, _), count in sorted(kinds.items()):
            found = await people.ask("GET", f"/v2/apps//all-{gib}")
            running = 0 if found is None or found.status != 200 else found.json()["app"]["tasksRunning"]
            if running != count:
                self.world.finding(f"{running} of {count} cards of {gib} GiB can be had again")

    async def _master(self, people: People) -> Any:
        from tests.sim.http import request

        leading = []
        try:
            for host in self.cluster.masters:
                answer = await request(f"{host.ip}:5050", "GET", "/master/state")
                if answer.status == 200:
                    leading.append(answer.json())
        except (OSError, ValueError) as error:
            self.world.finding(f"a master does not answer: {error}")
            return None
        if len(leading) != 1:
            self.world.finding(f"{len(leading)} masters lead")
            return None
        return leading[0]

    async def _books(self, state: Any, truth: dict[str, str]) -> None:
        agents = {agent["hostname"]: agent for agent in state["slaves"] if agent["active"]}
        if set(agents) != set(self.cluster.machines):
            self.world.finding(f"the master knows the agents {sorted(agents)}, not {sorted(self.cluster.machines)}")
        untold = self._untold()
        known = [task for framework in state["frameworks"] for task in framework["tasks"]]
        ended = [task for task in known if task["id"] in untold and task["state"] in LIVE]
        for name, agent in agents.items():
            machine = self.cluster.machines.get(name)
            held = 0 if machine is None else sum(len(one.gpus) for one in machine.running.values())
            late = sum(task["resources"]["gpus"] for task in ended if task["slave_id"] == agent["id"])
            if agent["used_resources"]["gpus"] not in (held, held + late):
                self.world.finding(f"the master counts {agent['used_resources']['gpus']} GPUs of {name}; taken: {held}")
        for wrong in sorted({*self.insight.differences(state), *await self._cards(state)}):
            self.world.finding(wrong)
        tasks = {
            task["id"]: task
            for framework in state["frameworks"]
            for task in framework["tasks"]
            if task not in ended
            # A framework that was removed comes no more, not to a later master either: nobody acknowledges their ends.
            and not ((self._lazy(task["id"]) or framework["recovered"]) and task["state"] in OVER)
        }
        if set(tasks) != set(truth):
            surplus, missing = sorted(set(tasks) - set(truth)), sorted(set(truth) - set(tasks))
            for name in surplus:
                self.world.tell("master", f"knows {json.dumps(tasks[name])}")
            self.world.finding(f"the master knows the tasks {surplus} too much, {missing} not")

    async def _jobs(self, people: People) -> None:
        for run in people.runs:
            answer = await people.ask("GET", f"/v1/jobs/{run.job}?embed=history&embed=activeRuns")
            if answer is None or answer.status != 200:
                self.world.finding(f"the run {run.run} was acknowledged, and its job is lost: {answer}")
                continue
            document = answer.json()
            if document["activeRuns"]:
                self.world.finding(f"run {run.run} does not end: {json.dumps(document['activeRuns'])[:500]}")
            succeeded = [one["id"] for one in document["history"]["successfulFinishedRuns"]]
            failed = [one["id"] for one in document["history"]["failedFinishedRuns"]]
            if run.run not in succeeded + failed:
                self.world.finding(f"the run {run.run} was acknowledged, and is not in its job's history")
            elif run.run in succeeded and run.status != 0:
                self.world.finding(f"run {run.run} failed and is said to have succeeded")
