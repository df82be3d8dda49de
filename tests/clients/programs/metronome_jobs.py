"""dcos-metronome against /v1/jobs. It reads strictly: a field that it does not know is an error. Prints what it saw.

It was written for Metronome 0.3. The fields that Metronome has given all jobs since are taken out, and no others.
"""

import json
import sys
import time

import metronome.client
from metronome import MetronomeClient, NotFoundError
from metronome.models import JobSpec, ScheduleSpec

read = metronome.client.Parse


def parse(text, message):
    document = json.loads(text)
    for name in ("dependencies", "schedules"):
        document.pop(name, None)
    for name in ("gpus", "secrets", "networks"):
        document.get("run", {}).pop(name, None)
    return read(json.dumps(document), message)


metronome.client.Parse = parse
client = MetronomeClient(sys.argv[1])
job = JobSpec(id="by.client", description="of a client")
job.run.cpus, job.run.mem, job.run.cmd = 0.1, 32, "sleep 1000"
job.run.disk.value = 0
seen = {"created": client.create_job(job).id, "listed": [one.id for one in client.list_jobs(schedules=True)]}
schedule = ScheduleSpec(id="nightly", cron="0 0 * * *", timezone="GMT", enabled=True, startingDeadlineSeconds=60)
schedule.concurrencyPolicy = ScheduleSpec.ALLOW
client.create_schedule("by.client", schedule)
schedule.cron = "1 1 * * *"
seen["schedule"] = client.update_schedule("by.client", "nightly", schedule).cron
seen["schedules"] = [one.id for one in client.list_schedules("by.client")]
run = client.run_job("by.client")
end = time.monotonic() + 60
while client.get_run("by.client", run.id).status != 2 and time.monotonic() < end:  # ACTIVE
    time.sleep(0.1)
seen["tasks"] = len(client.list_runs("by.client")[0].tasks)
client.stop_run("by.client", run.id)
job.run.cmd = "true"
seen["changed"] = client.update_job("by.client", job).run.cmd
client.delete_schedule("by.client", "nightly")
while client.list_runs("by.client") and time.monotonic() < end:
    time.sleep(0.1)
client.delete_job("by.client")
try:
    client.get_job("by.client")
except NotFoundError as error:
    seen["gone"] = str(error)
print(json.dumps(seen))
