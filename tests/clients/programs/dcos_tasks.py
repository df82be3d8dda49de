"""The library of the DC/OS CLI: finds a task, reads its stdout, runs commands in it as `dcos task exec` does.

Words: the master's URL, the task's id, a folder for its settings.
"""

import collections
import collections.abc
import contextlib
import io
import json
import os
import pathlib
import sys

url, task_id, folder = sys.argv[1:]
settings = pathlib.Path(folder) / "dcos.toml"
settings.write_text(f'[core]\ndcos_url = "{url}"\nmesos_master_url = "{url}"\n')
os.environ["DCOS_CONFIG"], os.environ["DCOS_DIR"] = str(settings), folder
settings.chmod(0o600)

for name in ("Mapping", "MutableMapping"):  # it is of a time before Python 3.10
    setattr(collections, name, getattr(collections.abc, name))

from dcos import mesos  # noqa: E402  reads the settings above

said = {}
master = mesos.get_master()
task = master.task(task_id)
said["state"], said["user"] = task["state"], task.user()
said["framework"] = task.framework()["name"]
said["agents"] = [agent["hostname"] for agent in master.slaves()]
client = mesos.DCOSClient()
said["stdout"] = mesos.MesosFile("stdout", task=task, dcos_client=client).read()
said["files"] = sorted(pathlib.Path(f["path"]).name for f in client.browse(task.slave(), task.directory()))
said["summary"] = sorted(client.get_state_summary())


class Terminal(io.StringIO):
    """What the commands print; the library writes bytes to its buffer."""

    def __init__(self):
        super().__init__()
        self.buffer = io.BytesIO()


out = Terminal()
with contextlib.redirect_stdout(out):
    mesos.TaskIO(task_id, cmd="nvidia-smi", args=["-L"]).run()
said["exec"] = out.buffer.getvalue().decode() + out.getvalue()

out, stdin = Terminal(), sys.stdin
typed, given = os.pipe()
os.write(given, b"typed here\n")
os.close(given)
sys.stdin = os.fdopen(typed)
with contextlib.redirect_stdout(out):
    mesos.TaskIO(task_id, cmd="cat", args=[], interactive=True).run()
sys.stdin = stdin
said["echo"] = out.buffer.getvalue().decode() + out.getvalue()
print(json.dumps(said), flush=True)
os._exit(0)  # its threads wait for input that never comes
