#!/usr/bin/env python3
"""One worker of examples/training_framework.py: it fits y = a*x + b to its own share of the data, on its own GPU.

    training_worker.py URL RANK

The framework's master copy of a and b is at URL: a worker gets it, works out a gradient, posts that, and gets the next
copy once all workers have posted theirs. It is a plain program: Mesos is nothing that it knows of.
"""

import json
import random
import subprocess
import sys
import urllib.request


def post(url, document):
    request = urllib.request.Request(url, json.dumps(document).encode())
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
        return json.load(response)


def gradient(samples, a, b):
    """The gradient of the mean squared error; a real worker would do this on its GPU."""
    errors = [(a * x + b - y, x) for x, y in samples]
    return [2 * sum(e * x for e, x in errors) / len(errors), 2 * sum(e for e, _ in errors) / len(errors)]


def main():
    url, rank = sys.argv[1], int(sys.argv[2])
    gpus = subprocess.run(["nvidia-smi", "-L"], check=True, capture_output=True, text=True).stdout.splitlines()
    print(f"worker {rank} has {gpus}", flush=True)
    chance = random.Random(rank)
    samples = [(x, 3 * x - 2 + chance.gauss(0, 0.1)) for x in (chance.uniform(-1, 1) for _ in range(500))]
    model = post(f"{url}/join", {"rank": rank, "gpus": gpus})
    while not model["done"]:
        found = gradient(samples, *model["weights"])
        model = post(f"{url}/step", {"rank": rank, "step": model["step"], "gradient": found})
    print(f"worker {rank} is done after step {model['step']}: {model['weights']}", flush=True)


if __name__ == "__main__":
    main()
