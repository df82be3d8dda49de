"""Planted defects: how a change finds its place, and that each of the table does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.defects import DEFECTS, Change, Defect, NotPlantable, find, plant
from tests.sim.hunting import ROOT

SOURCE = '''\
class Pool:
    def free(self, gpu):
        """Release ä GPU."""
        if gpu in self.held:  # nothing else
            self.held.remove(
                gpu
            )
        return len(self.held) + len(self.held)


def free(gpu):
    self.held.remove(gpu)
'''


def tree(folder: Path, source: str = SOURCE) -> Path:
    (folder / "mesos_gpu" / "agent").mkdir(parents=True)
    (folder / "mesos_gpu" / "agent" / "pool.py").write_text(source)
    return folder


def planted(folder: Path, *changes: Change) -> str:
    (text,) = plant(Defect("name", "about", changes), tree(folder)).values()
    return text


def test_every_defect_fits_the_code() -> None:
    for defect in DEFECTS.values():
        for file, text in plant(defect, ROOT).items():
            compile(text, str(file), "exec")


def test_a_statement_is_replaced_by_others_and_nothing_else_changes(tmp_path: Path) -> None:
    text = planted(tmp_path, Change("Pool.free", "self.held.remove(gpu)", "if gpu:\n    pass\nreturn 0"))
    assert text == SOURCE.replace(
        "self.held.remove(\n                gpu\n            )",
        "if gpu:\n                pass\n            return 0",
    )


def test_several_changes_of_one_file_are_made_together(tmp_path: Path) -> None:
    changes = Change("Pool.free", "gpu in self.held", "True"), Change("free", "self.held.remove(gpu)", "pass")
    text = planted(tmp_path, *changes)
    assert "if (True):  # nothing else" in text
    assert text.endswith("def free(gpu):\n    pass\n")


@pytest.mark.parametrize(
    ("function", "was"),
    [
        ("Pool.allocate", "gpu in self.held"),
        ("Pool.free", "gpu in self.lent"),
        ("Pool.free", "len(self.held)"),
    ],
    ids=["no function", "no match", "two matches"],
)
def test_a_change_without_one_place_is_refused(tmp_path: Path, function: str, was: str) -> None:
    with pytest.raises(NotPlantable, match=function):
        find(Change(function, was, "None"), tree(tmp_path))


def test_a_function_is_found_by_what_it_contains_if_others_have_its_name(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    (folder / "mesos_gpu" / "other.py").write_text("def free(gpu):\n    return gpu\n")
    assert find(Change("free", "return gpu", "return None"), folder).file.name == "other.py"
