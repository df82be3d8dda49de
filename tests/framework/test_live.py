"""What authors build, run: each wish of a task is looked at from inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesos_gpu.errors import NotFound
from mesos_gpu.framework import GpuTask, volume
from mesos_gpu.testing import BoxFactory, MesosBox
from tests.support.images.build import busybox_image, save_archive
from tests.support.player import Player, playing

pytestmark = pytest.mark.root


@pytest.fixture
def box(mesos_box: BoxFactory, tmp_path: Path) -> MesosBox:
    save_archive(tmp_path / "tool:1.tar", busybox_image())
    return mesos_box(gpus=4, docker_registry=tmp_path)


def wishes(tmp_path: Path, image: str | None) -> GpuTask:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "in").write_text("given")
    (tmp_path / "fetched").write_text("got")
    where = "/data" if image else "data"
    more = "echo x > /scratch/new; test -e scratch/new;" if image else ""
    script = (
        f"set -ex; test $(cat {where}/in) = given; ! touch {where}/in; {more} test $(cat fetched) = got;"
        'test "$WORD" = "two words"; test $PORT0 -lt $PORT1; test $(ls /dev | grep -c "^nvidia[0-9]") = 2'
    )
    return GpuTask(
        f"wishes-{'image' if image else 'host'}",
        script,
        gpus=2,
        mem_mib=64,
        disk_mib=10,
        ports=2,
        image=image,
        volumes=[volume(where, str(tmp_path / "data"), read_only=True), *([volume("/scratch")] if image else [])],
        env={"WORD": "two words"},
        uris=[(tmp_path / "fetched").as_uri()],
        labels={"team": "a"},
        kill_grace_s=0.5,
        max_completion_s=60,
    )


def finished(player: Player, box: MesosBox) -> None:
    status = player.next("status", lambda status: status["state"] not in ("TASK_STARTING", "TASK_RUNNING"))
    said = (box.sandbox(status["task_id"]["value"]) / "stderr").read_text()
    assert status["state"] == "TASK_FINISHED", (status, said)


@pytest.mark.parametrize("image", [None, "tool:1"], ids=["host", "image"])
def test_a_task_finds_all_that_it_asked_for(box: MesosBox, tmp_path: Path, image: str | None) -> None:
    with playing(box) as player:
        player.launch(wishes(tmp_path, image))
        finished(player, box)


def test_a_group_runs_together_and_another_one_joins_it(box: MesosBox) -> None:
    waits = "until test -e /tmp/$POD; do sleep 0.05; done; rm /tmp/$POD"
    env = {"POD": f"joined-{box.agents[0].id}"}
    with playing(box) as player:
        first = [GpuTask(f"first-{n}", "true" if n else waits, gpus=1, env=env) for n in range(2)]
        offered = player.next("offer", lambda offer: offer.fits(*first))
        operation = offered.launch_group("pod", player.driver.framework_id, first)
        player.driver.acceptOffers([offered.id], [operation], {"refuse_seconds": 0.05})
        player.status("TASK_RUNNING", "first-0")
        second = GpuTask("second", f"echo hello; touch /tmp/{env['POD']}", gpus=1)
        offered = player.next("offer", lambda offer: offer.fits(second))
        joining = offered.join_group(operation["launch_group"]["executor"], [second])
        player.driver.acceptOffers([offered.id], [joining])
        for name in ("first-0", "first-1", "second"):
            player.status("TASK_FINISHED", name)
    assert (box.sandbox("second") / "stdout").read_text() == "hello\n"
    with pytest.raises(NotFound, match="third"):
        box.sandbox("third")
