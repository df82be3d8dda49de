"""PaaSTA's library for Mesos, alone: what its tools read of a cluster. Prints it as JSON.

The rest of PaaSTA wants the whole of Yelp's; of it the library needs one word.
"""

import asyncio
import json
import sys
import types
from importlib.util import find_spec
from pathlib import Path

folder = next(str(Path(path) / "paasta_tools") for path in sys.path if (Path(path) / "paasta_tools").is_dir())
package = types.ModuleType("paasta_tools")
package.__path__ = [folder]
utils = types.ModuleType("paasta_tools.utils")
utils.get_user_agent = lambda: "PaaSTA"
sys.modules |= {"paasta_tools": package, "paasta_tools.utils": utils}
assert find_spec("paasta_tools.mesos") is not None

from paasta_tools.mesos.master import MesosMaster  # noqa: E402


async def look(master):
    summary = await master.state_summary()
    (task,) = await master.tasks(sys.argv[2], active_only=True)
    file = await task.file("stdout")
    agent = await task.slave()
    return {
        "agents": [one["active"] for one in summary["slaves"]],
        "frameworks": [one.name for one in await master.frameworks(active_only=True)],
        "gpus_used": (await master.metrics_snapshot())["master/gpus_used"],
        "rss": await task.rss(),
        "cpus": await task.cpu_limit(),
        "user": await task.user(),
        "stdout": await file.size(),
        "agent": (await agent.state())["id"],
    }


config = {"master": sys.argv[1], "scheme": "http", "response_timeout": 20, "max_workers": 5}
print(json.dumps(asyncio.run(look(MesosMaster(config)))))
