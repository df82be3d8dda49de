"""tfmesos: a cluster of one parameter server and two workers with a GPU each; prints which GPU each worker saw."""

import json
import pathlib
import sys
import time

from tfmesos import TFMesosScheduler, cluster

# pymesos 0.3 calls it with the driver, which tfmesos 0.0.10 does not know; and Mesos sends a HEARTBEAT at once.
TFMesosScheduler.processHeartBeat = lambda self, driver: None

folder = pathlib.Path(sys.argv[2])
say = f"nvidia-smi -L > {folder}/{{job_name}}-{{task_index}}; true"
jobs = [
    {"name": "ps", "num": 1, "cpus": 0.1, "mem": 32, "gpus": 0, "cmd": say},
    {"name": "worker", "num": 2, "cpus": 0.1, "mem": 32, "gpus": 1, "cmd": say},
]
with cluster(jobs, master=sys.argv[1], quiet=True) as running:
    targets = sorted(running.targets)
    end = time.monotonic() + 60
    # It calls itself finished when one of its jobs is.
    while sum(running.job_finished.values()) < 3 and time.monotonic() < end:
        time.sleep(0.05)
    finished = dict(running.job_finished)
print(json.dumps({"targets": targets, "finished": finished, "saw": {p.name: p.read_text() for p in folder.iterdir()}}))
