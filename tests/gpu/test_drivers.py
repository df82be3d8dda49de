from __future__ import annotations

import pytest

from mesos_gpu.errors import BadFlag, DeviceError
from mesos_gpu.gpu import nvml
from mesos_gpu.gpu.drivers import open_driver
from tests.fakes.nvml import LIBRARY_NOT_FOUND, FakeNvml, fake_gpus


def use(monkeypatch: pytest.MonkeyPatch, binding: FakeNvml) -> None:
    monkeypatch.setattr(nvml.NvmlDriver.__init__, "__defaults__", (binding,))
    monkeypatch.setattr(nvml.find_nvml, "__defaults__", (binding,))


def test_none_has_no_gpus() -> None:
    driver = open_driver("none")
    assert (driver.kind, list(driver.gpus())) == ("none", [])


def test_simulated_has_as_many_as_asked() -> None:
    assert len(open_driver("simulated").gpus()) == 4
    assert len(open_driver("simulated", simulated_gpus=2).gpus()) == 2


def test_auto_is_nvml_where_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeNvml(fake_gpus(2)))
    driver = open_driver("auto")
    assert (driver.kind, len(driver.gpus())) == ("nvml", 2)


def test_auto_is_none_where_nvml_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeNvml(init_error=LIBRARY_NOT_FOUND))
    assert open_driver("auto").kind == "none"


def test_nvml_by_name_is_an_error_where_it_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeNvml(init_error=LIBRARY_NOT_FOUND))
    with pytest.raises(DeviceError, match="NVML could not start"):
        open_driver("nvml")


def test_another_kind_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(BadFlag, match=r"auto, nvml, simulated, none, not 'cuda'"):
        open_driver("cuda")


def test_another_mig_strategy_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(BadFlag, match=r"mig_strategy: must be one of none, single, not 'mixed'"):
        open_driver("none", mig_strategy="mixed")


@pytest.mark.parametrize(("strategy", "reason"), [("none", "are not asked for"), ("single", "has no instances")])
def test_mig_strategy_reaches_the_driver(
    strategy: str, reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gpus = fake_gpus(1)
    gpus[0].mig = (1, 1)
    use(monkeypatch, FakeNvml(gpus))
    for kind in ("nvml", "auto"):
        assert list(open_driver(kind, mig_strategy=strategy).gpus()) == []
    assert [reason in message for message in caplog.messages] == [True, True]
