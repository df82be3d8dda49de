"""An executor over pesos, an executor driver of Python 2.7: tasks do nothing until killed, messages are answered."""

import os
import sys
import threading

from pesos.executor import PesosExecutorDriver
from pesos.vendor.mesos import mesos_pb2


def _say(*words):
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


class Echo:
    """What the driver calls."""

    def registered(self, driver, executor_info, framework_info, slave_info):
        _say("registered", str(executor_info.executor_id.value), str(framework_info.name))

    def reregistered(self, driver, slave_info):
        _say("reregistered")

    def disconnected(self, driver):
        _say("disconnected")

    def launchTask(self, driver, task):
        self._update(driver, task.task_id.value, mesos_pb2.TASK_RUNNING)

    def killTask(self, driver, task_id):
        self._update(driver, task_id.value, mesos_pb2.TASK_KILLED)

    def frameworkMessage(self, driver, data):
        driver.sendFrameworkMessage("you said " + data)

    def shutdown(self, driver):
        _say("shutdown")
        threading.Timer(0.2, os._exit, [0]).start()

    def error(self, driver, message):
        _say("error", str(message))

    def _update(self, driver, task_id, state):
        status = mesos_pb2.TaskStatus(state=state)
        status.task_id.value = task_id
        driver.sendStatusUpdate(status)


if __name__ == "__main__":
    PesosExecutorDriver(Echo()).run()
