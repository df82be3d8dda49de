"""What one task can find out of another: nothing that the agent keeps of it."""

from __future__ import annotations

import pytest

from tests.support.container.box import Box

pytestmark = pytest.mark.root

LOOK = """
cd {folder} || exit 3
find . -type f -exec grep -l {secret} {{}} + 2>/dev/null
find . -path ./host -prune -o -type d -readable -path '*bundles/*' -print 2>/dev/null
echo looked
"""


async def test_no_task_reads_what_is_written_down_of_another(box: Box) -> None:
    """Its variables, and with them an executor's token, were in a bundle that every user of the machine could read."""
    containerizer = await box.open()
    secret = "the-token-of-an-executor"
    variables = {"PATH": "/usr/bin:/bin", "MESOS_EXECUTOR_AUTHENTICATION_TOKEN": secret}
    await containerizer.launch(box.config("owner", shell="exec sleep 1000", environment=variables))
    config = box.folder / "run" / "bundles" / "owner" / "config.json"
    assert secret in config.read_text()
    modes = [path.stat().st_mode & 0o777 for path in (config, config.parent, config.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]
    for folder in box.folder.parents:
        if folder.stat().st_uid == 0 and str(folder).startswith("/tmp/"):
            folder.chmod(0o755)  # pytest's own, which would keep anybody out
    look = LOOK.format(folder=box.folder / "run", secret=secret[:-1])
    await containerizer.launch(box.config("thief", shell=look, user="nobody"))
    assert (await containerizer.wait("thief")).exit_code == 0
    assert box.said("thief") == "looked\n"
