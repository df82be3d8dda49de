"""/v1/jobs: what runs to its end, in the shape of Metronome's API."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from aiohttp import web

from mesos_gpu.errors import BadInput, NotFound
from mesos_gpu.marathon.api.answers import flag, read_object
from mesos_gpu.marathon.decisions.job_progress import run_stamp
from mesos_gpu.marathon.engine.scheduler import Scheduler
from mesos_gpu.marathon.model.jobs import Job, Run, Schedule, new_run_id
from mesos_gpu.marathon.state.events import PutJob, PutSchedule, RemoveJob, RemoveSchedule, StartRun, StopRun
from mesos_gpu.marathon.views.job_views import job_view, queue_views, run_view, run_views, schedule_view, schedule_views
from mesos_gpu.process.http import json_response

_DEFINITION = ("schedules",)
"""What is shown of a job beside its own fields where it is made, changed or removed: what defines it."""
_EVERYTHING = ("schedules", "activeRuns", "history", "historySummary")


class JobsApi:
    """Handlers of /v1/jobs, and of /v0/scheduled-jobs, where a job comes with its schedules."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        one = "/v1/jobs/{job_id:[^/]+}"
        schedule, run = f"{one}/schedules/{{schedule_id:[^/]+}}", f"{one}/runs/{{run_id:[^/]+}}"
        return [
            web.get("/v1/jobs", self.list_jobs),
            web.post("/v1/jobs", self.create),
            web.get(one, self.show),
            web.put(one, self.update),
            web.delete(one, self.remove),
            web.get(f"{one}/schedules", self.list_schedules),
            web.post(f"{one}/schedules", self.create_schedule),
            web.get(schedule, self.show_schedule),
            web.put(schedule, self.update_schedule),
            web.delete(schedule, self.remove_schedule),
            web.get(f"{one}/runs", self.list_runs),
            web.post(f"{one}/runs", self.start_run),
            web.get(run, self.show_run),
            web.post(f"{run}/actions/stop", self.stop_run),
            web.get("/v1/queue", self.show_queue),
            web.get("/v0/scheduled-jobs", self.list_scheduled),
            web.post("/v0/scheduled-jobs", self.create),
            web.put("/v0/scheduled-jobs/{job_id:[^/]+}", self.update_scheduled),
        ]

    async def list_jobs(self, request: web.Request) -> web.Response:
        """Answer with all jobs."""
        return self._list(_embed(request))

    async def list_scheduled(self, _: web.Request) -> web.Response:
        """Answer with all jobs, and all there is to know about them."""
        return self._list(_EVERYTHING)

    async def create(self, request: web.Request) -> web.Response:
        """Create a job, with schedules where it has some."""
        document = await read_object(request)
        await self._scheduler.ask(PutJob(document, create=True))
        return self._shown(str(document["id"]), status=201)

    async def show(self, request: web.Request) -> web.Response:
        """Answer with one job."""
        return json_response(job_view(self._scheduler.state, self._job(request), _embed(request)))

    async def update(self, request: web.Request) -> web.Response:
        """Change a job; its schedules stay."""
        return await self._update(request, with_schedules=False)

    async def update_scheduled(self, request: web.Request) -> web.Response:
        """Change a job and its schedules."""
        return await self._update(request, with_schedules=True)

    async def remove(self, request: web.Request) -> web.Response:
        """Remove a job with its history."""
        job = self._job(request)
        shown = job_view(self._scheduler.state, job, _DEFINITION)
        await self._scheduler.ask(RemoveJob(job.id, flag(request, "stopCurrentJobRuns")))
        return json_response(shown)

    async def list_schedules(self, request: web.Request) -> web.Response:
        """Answer with the schedules of a job."""
        return json_response(schedule_views(self._job(request)))

    async def create_schedule(self, request: web.Request) -> web.Response:
        """Give a job a schedule."""
        job, document = self._job(request), await read_object(request)
        await self._scheduler.ask(PutSchedule(job.id, document, create=True))
        return json_response(schedule_view(self._schedule(job.id, str(document["id"]))), status=201)

    async def show_schedule(self, request: web.Request) -> web.Response:
        """Answer with one schedule."""
        return json_response(schedule_view(self._schedule(self._job(request).id, request.match_info["schedule_id"])))

    async def update_schedule(self, request: web.Request) -> web.Response:
        """Replace a schedule."""
        job, schedule_id = self._job(request), request.match_info["schedule_id"]
        document = {**await read_object(request), "id": schedule_id}
        await self._scheduler.ask(PutSchedule(job.id, document, create=False))
        return json_response(schedule_view(self._schedule(job.id, schedule_id)))

    async def remove_schedule(self, request: web.Request) -> web.Response:
        """Take a schedule from a job."""
        await self._scheduler.ask(RemoveSchedule(self._job(request).id, request.match_info["schedule_id"]))
        return web.Response()

    async def list_runs(self, request: web.Request) -> web.Response:
        """Answer with the runs of a job that are under way."""
        return json_response(run_views(self._scheduler.state, self._job(request)))

    async def start_run(self, request: web.Request) -> web.Response:
        """Start a run now."""
        job = self._job(request)
        run_id = new_run_id(run_stamp(self._scheduler.clock()), UUID(self._scheduler.new_id()).int)
        await self._scheduler.ask(StartRun(job.id, run_id))
        run = self._run(job.id, run_id)
        return json_response(run_view(self._scheduler.state, job.id, run, "INITIAL"), status=201)

    async def show_run(self, request: web.Request) -> web.Response:
        """Answer with a run that is under way; one that has ended is in the job's history."""
        job = self._job(request)
        run = self._run(job.id, request.match_info["run_id"])
        return json_response(run_view(self._scheduler.state, job.id, run))

    async def stop_run(self, request: web.Request) -> web.Response:
        """End a run."""
        job = self._job(request)
        run = self._run(job.id, request.match_info["run_id"])
        await self._scheduler.ask(StopRun(job.id, run.id))
        return json_response(run_view(self._scheduler.state, job.id, run, "FAILED"))

    async def show_queue(self, _: web.Request) -> web.Response:
        """Answer with the runs that wait for an offer."""
        return json_response(queue_views(self._scheduler.state))

    async def _update(self, request: web.Request, *, with_schedules: bool) -> web.Response:
        job, document = self._job(request), await read_object(request)
        if document.get("id", job.id) != job.id:
            raise BadInput(f"'{job.id}' does not match the definition's id ('{document['id']}')")
        event = PutJob({**document, "id": job.id}, create=False, with_schedules=with_schedules)
        await self._scheduler.ask(event)
        return self._shown(job.id, status=200)

    def _list(self, embed: Collection[str]) -> web.Response:
        state = self._scheduler.state
        return json_response([job_view(state, job, embed) for job in state.jobs.values()])

    def _shown(self, job_id: str, *, status: int) -> web.Response:
        return json_response(job_view(self._scheduler.state, self._named(job_id), _DEFINITION), status=status)

    def _job(self, request: web.Request) -> Job:
        return self._named(request.match_info["job_id"])

    def _named(self, job_id: str) -> Job:
        job = self._scheduler.state.jobs.get(job_id)
        if job is None:
            raise NotFound(f"Job '{job_id}' does not exist", id=job_id)
        return job

    def _run(self, job_id: str, run_id: str) -> Run:
        run = self._named(job_id).runs.get(run_id)
        if run is None:
            raise NotFound(f"JobRun '{run_id}' does not exist", jobSpec=job_id, id=run_id)
        return run

    def _schedule(self, job_id: str, schedule_id: str) -> Schedule:
        schedule = self._named(job_id).schedules.get(schedule_id)
        if schedule is None:
            raise NotFound(f"Schedule '{schedule_id}' does not exist", id=schedule_id)
        return schedule


def _embed(request: web.Request) -> frozenset[str]:
    asked = frozenset(part for text in request.query.getall("embed", []) for part in text.split(",") if part)
    if asked - set(_EVERYTHING):
        raise BadInput(f"Unknown embed options. Valid options are: {', '.join(_EVERYTHING)}")
    return asked
