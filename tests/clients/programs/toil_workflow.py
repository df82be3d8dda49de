"""A workflow of Toil over its Mesos batch system: six jobs at once, then one that adds up what they return.

Arguments: the master as HOST:PORT, and a folder that it may fill. Prints what the last job returned as JSON.
"""

import json
import sys

from toil.common import Toil
from toil.job import Job

SMALL = {"cores": 0.2, "memory": "512M", "disk": "64M"}


def square(job, number):
    return number * number


def add(job, *numbers):
    return sum(numbers)


def root(job):
    parts = [job.addChildJobFn(square, number, **SMALL) for number in range(6)]
    return job.addFollowOnJobFn(add, *[part.rv() for part in parts], **SMALL).rv()


if __name__ == "__main__":
    master, folder = sys.argv[1:]
    words = ["--batchSystem", "mesos", "--clean", "always", "--workDir", folder, "--retryCount", "0"]
    parser = Job.Runner.getDefaultArgumentParser()
    options = parser.parse_args(
        [f"{folder}/jobs", *words, "--coordinationDir", folder, "--mesosEndpoint", master, "--mesosName", "toil-test"]
    )
    with Toil(options) as workflow:
        print(json.dumps(workflow.start(Job.wrapJobFn(root, **SMALL))))
