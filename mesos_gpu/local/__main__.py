"""The supervisor of a detached box; started by `mesos-gpu up --detach`."""

import sys

from mesos_gpu.local.detached import serve_detached

if __name__ == "__main__":
    sys.exit(serve_detached(sys.argv[1:]))
