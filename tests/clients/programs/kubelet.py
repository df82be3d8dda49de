"""A kubelet as far as its device plugins and node tools go, on code that protoc made of Kubernetes' messages.

    kubelet.py FOLDER        FOLDER has device-plugins/ and pod-resources/

Reads a JSON object a line from stdin and answers each with one on stdout; it knows nothing of mesos-gpu.
"""

import importlib
import json
import sys
import tempfile
import threading
from concurrent import futures
from pathlib import Path

import grpc
from google.protobuf.json_format import MessageToDict
from grpc_tools import protoc

API = Path(__file__).parent / "kubelet_api"
MADE = tempfile.mkdtemp()
for name in ("deviceplugin", "podresources"):
    words = ["protoc", f"-I{API}", f"--python_out={MADE}", f"--grpc_python_out={MADE}", f"{name}.proto"]
    assert protoc.main(words) == 0
sys.path.insert(0, MADE)

MODULES = ("deviceplugin_pb2", "deviceplugin_pb2_grpc", "podresources_pb2", "podresources_pb2_grpc")
plugins, plugins_grpc, pods, pods_grpc = map(importlib.import_module, MODULES)

PATIENCE_S = 60


def shown(message):
    return MessageToDict(message, preserving_proto_field_name=True)


class Kubelet(plugins_grpc.RegistrationServicer, pods_grpc.PodResourcesListerServicer):
    def __init__(self, folder):
        self.plugins, self.pods = folder / "device-plugins", folder / "pod-resources"
        self.given = []
        self.changed = threading.Condition()
        self.registered, self.listed = [], {}
        self.plugin = self.server = self.pod_server = None

    def start(self):
        """Start; again: without what it knew, at a new socket."""
        if self.server is not None:
            self.server.stop(0).wait()
        with self.changed:
            self.registered, self.listed = [], {}
        self.server = grpc.server(futures.ThreadPoolExecutor(4))
        plugins_grpc.add_RegistrationServicer_to_server(self, self.server)
        (self.plugins / "kubelet.sock").unlink(missing_ok=True)
        self.server.add_insecure_port(f"unix:{self.plugins}/kubelet.sock")
        self.server.start()
        if self.pod_server is None:
            self.pod_server = grpc.server(futures.ThreadPoolExecutor(4))
            pods_grpc.add_PodResourcesListerServicer_to_server(self, self.pod_server)
            self.pod_server.add_insecure_port(f"unix:{self.pods}/kubelet.sock")
            self.pod_server.start()
        return {}

    def Register(self, request, context):
        connection = grpc.insecure_channel(
            f"unix:{self.plugins}/{request.endpoint}", [("grpc.default_authority", "localhost")]
        )
        stub = plugins_grpc.DevicePluginStub(connection)
        options = stub.GetDevicePluginOptions(plugins.Empty(), timeout=PATIENCE_S)
        self.plugin = stub
        with self.changed:
            self.registered.append({**shown(request), "asked": shown(options)})
            self.changed.notify_all()
        threading.Thread(target=self.watch, args=(stub,), daemon=True).start()
        return plugins.Empty()

    def watch(self, stub):
        try:
            for answer in stub.ListAndWatch(plugins.Empty()):
                with self.changed:
                    if self.plugin is stub:
                        self.listed = {device.ID: device.health for device in answer.devices}
                    self.changed.notify_all()
        except grpc.RpcError:
            with self.changed:
                if self.plugin is stub:
                    self.listed = dict.fromkeys(self.listed, "Unhealthy")
                self.changed.notify_all()

    def List(self, request, context):
        devices = pods.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=self.given)
        container = pods.ContainerResources(name="c", devices=[devices])
        return pods.ListPodResourcesResponse(
            pod_resources=[pods.PodResources(name="p", namespace="default", containers=[container])]
        )

    def until(self, true, what):
        with self.changed:
            if not self.changed.wait_for(true, PATIENCE_S):
                raise TimeoutError(f"{what}: registered {self.registered}, listed {self.listed}")

    # --- what the test asks for

    def do_start(self):
        return self.start()

    def do_registered(self):
        self.until(lambda: self.registered, "a plugin registers")
        return self.registered[-1]

    def do_listed(self, healthy):
        """Wait until so many are healthy; return all, healthy ones first."""
        self.until(
            lambda: sum(health == "Healthy" for health in self.listed.values()) == healthy, f"{healthy} are healthy"
        )
        return sorted(self.listed, key=lambda device: (self.listed[device] != "Healthy", device))

    def do_prefer(self, available, size):
        asked = plugins.ContainerPreferredAllocationRequest(available_deviceIDs=available, allocation_size=size)
        request = plugins.PreferredAllocationRequest(container_requests=[asked])
        return shown(self.plugin.GetPreferredAllocation(request, timeout=PATIENCE_S))

    def do_allocate(self, *containers):
        asked = [plugins.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
        return shown(self.plugin.Allocate(plugins.AllocateRequest(container_requests=asked), timeout=PATIENCE_S))

    def do_pods(self, *devices):
        self.given = list(devices)
        return {}

    def do_ask_pods(self, path):
        """Ask whoever answers as a kubelet there what pods have, as node tools do."""
        with grpc.insecure_channel(f"unix:{path}", [("grpc.default_authority", "localhost")]) as connection:
            stub = pods_grpc.PodResourcesListerStub(connection)
            there = stub.GetAllocatableResources(pods.AllocatableResourcesRequest(), timeout=PATIENCE_S)
            return [shown(stub.List(pods.ListPodResourcesRequest(), timeout=PATIENCE_S)), shown(there)]


kubelet = Kubelet(Path(sys.argv[1]))
for line in sys.stdin:
    asked = json.loads(line)
    try:
        said = {"said": getattr(kubelet, f"do_{asked[0]}")(*asked[1:])}
    except grpc.RpcError as error:
        said = {"refused": [error.code().name, error.details()]}
    except Exception as error:
        said = {"failed": f"{type(error).__name__}: {error}"}
    print(json.dumps(said), flush=True)
