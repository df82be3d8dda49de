"""A framework over a scheduler driver of Python 2.7: calls of the driver come in as lines of JSON, callbacks go out so.

Run by Python 2.7 as `framework.py genuine LIBRARY` (libmesos' driver, of PyPI's mesos.scheduler) or
`framework.py pesos`. Protobufs are base64. It ends when its standard input does.
"""

import base64
import imp
import json
import os
import sys
import threading

_writing = threading.Lock()
_out = os.fdopen(os.dup(1), "w")


def _say(**line):
    with _writing:
        _out.write(json.dumps(line) + "\n")
        _out.flush()


def _text(message):
    return base64.b64encode(message.SerializeToString()).decode("ascii")


class Echo:
    """Writes down what a driver calls."""

    def __init__(self, name):
        self._name = name

    def _called(self, callback, *arguments):
        shown = [a if isinstance(a, (str, int)) or a is None else _text(a) for a in arguments]
        _say(driver=self._name, callback=callback, arguments=shown)

    def registered(self, driver, framework_id, master_info):
        self._called("registered", framework_id, master_info)

    def reregistered(self, driver, master_info):
        self._called("reregistered", master_info)

    def disconnected(self, driver):
        self._called("disconnected")

    def resourceOffers(self, driver, offers):
        self._called("resourceOffers", *offers)

    def offerRescinded(self, driver, offer_id):
        self._called("offerRescinded", offer_id)

    def statusUpdate(self, driver, status):
        self._called("statusUpdate", status)

    def frameworkMessage(self, driver, executor_id, slave_id, data):
        self._called("frameworkMessage", executor_id, slave_id, base64.b64encode(data))

    def slaveLost(self, driver, slave_id):
        self._called("slaveLost", slave_id)

    def executorLost(self, driver, executor_id, slave_id, status):
        self._called("executorLost", executor_id, slave_id, status)

    def error(self, driver, message):
        self._called("error", str(message))


def _genuine(library):
    """Return the protobuf classes, and what makes a driver."""
    from mesos.interface import mesos_pb2

    native = imp.load_dynamic("_scheduler", library)

    def make(scheduler, framework, master, credential):
        more = [] if credential is None else [credential]
        return native.MesosSchedulerDriverImpl(scheduler, framework, master, 1, *more)

    return mesos_pb2, make


def _pesos():
    from pesos.scheduler import PesosSchedulerDriver, SchedulerProcess
    from pesos.vendor.mesos import mesos_pb2

    # Its compactor looks methods up by the names they have inside their class.
    hidden = SchedulerProcess._SchedulerProcess__maybe_register
    setattr(SchedulerProcess, "__maybe_register", hidden.__func__)

    class Driver(PesosSchedulerDriver):
        def launchTasks(self, offer_ids, tasks, filters=None):
            # It puts these where the text of an id belongs.
            ids = [offer_id.value for offer_id in offer_ids]
            return PesosSchedulerDriver.launchTasks(self, ids, tasks, filters)

    return mesos_pb2, Driver


class Program:
    """The drivers of this process, by name."""

    def __init__(self, pb, make):
        self._pb, self._make = pb, make
        self._drivers = {}

    def do(self, line):
        """Carry out one line: a driver's name, a call, and what it is called with."""
        name, call, arguments = line["driver"], line["call"], line["arguments"]
        if call == "start":
            framework = self._read("FrameworkInfo", arguments[0])
            credential = None if arguments[2] is None else self._read("Credential", arguments[2])
            self._drivers[name] = self._make(Echo(name), framework, str(arguments[1]), credential)
            self._drivers[name].start()
            return
        driver = self._drivers[name]
        if call == "launchTasks":
            offers = [self._id("OfferID", offer) for offer in arguments[0]]
            tasks = [self._read("TaskInfo", task) for task in arguments[1]]
            driver.launchTasks(offers, tasks, self._filters(arguments[2]))
        elif call == "declineOffer":
            driver.declineOffer(self._id("OfferID", arguments[0]), self._filters(arguments[1]))
        elif call == "killTask":
            driver.killTask(self._id("TaskID", arguments[0]))
        elif call == "reconcileTasks":
            driver.reconcileTasks([self._read("TaskStatus", status) for status in arguments[0]])
        elif call == "sendFrameworkMessage":
            executor, agent = self._id("ExecutorID", arguments[0]), self._id("SlaveID", arguments[1])
            driver.sendFrameworkMessage(executor, agent, base64.b64decode(arguments[2]))
        else:
            getattr(driver, call)(*arguments)

    def _read(self, kind, text):
        message = getattr(self._pb, kind)()
        message.ParseFromString(base64.b64decode(text))
        return message

    def _id(self, kind, value):
        return getattr(self._pb, kind)(value=value)

    def _filters(self, refuse_s):
        return self._pb.Filters(refuse_seconds=refuse_s)


def main(argv):
    """Serve until the end of standard input."""
    program = Program(*(_pesos() if argv[1] == "pesos" else _genuine(argv[2])))
    _say(ready=True)
    while True:
        line = sys.stdin.readline()
        if not line:
            _out.flush()
            os._exit(0)
        program.do(json.loads(line))


if __name__ == "__main__":
    main(sys.argv)
