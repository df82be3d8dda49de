#!/usr/bin/env python3
"""A device plugin of accelerators that are not there: `example.com/gpu`, on two NUMA nodes, that want to be prepared.

Written from the API's .proto alone, with grpcio and protobuf and nothing of mesos-gpu; on asyncio, leds.py on threads.
It prefers cards of one NUMA node, gives variables, a mount and a node, and asks for PreStartContainer:

    examples/device-plugins/cards.py FOLDER 4

The names of cards in FOLDER/cards.broken are unhealthy; with FOLDER/cards.stubborn, allocations are refused.
"""

import asyncio
import os
import sys
from pathlib import Path

import grpc
import grpc.aio
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

RESOURCE = "example.com/gpu"
LOOK_S = 0.1
F = descriptor_pb2.FieldDescriptorProto
TEXT, WHOLE, TRUTH = F.TYPE_STRING, F.TYPE_INT64, F.TYPE_BOOL
MESSAGES = {
    "Empty": [],
    "Options": [("pre_start_required", 1, TRUTH), ("get_preferred_allocation_available", 2, TRUTH)],
    "Register": [("version", 1, TEXT), ("endpoint", 2, TEXT), ("resource_name", 3, TEXT), ("options", 4, "Options")],
    "Node": [("ID", 1, WHOLE)],
    "Topology": [("nodes", 1, ["Node"])],
    "Device": [("ID", 1, TEXT), ("health", 2, TEXT), ("topology", 3, "Topology")],
    "Devices": [("devices", 1, ["Device"])],
    "Preference": [("available", 1, [TEXT]), ("needed", 2, [TEXT]), ("size", 3, F.TYPE_INT32)],
    "Preferences": [("containers", 1, ["Preference"])],
    "Ids": [("ids", 1, [TEXT])],
    "Containers": [("containers", 1, ["Ids"])],
    "Env": [("key", 1, TEXT), ("value", 2, TEXT)],
    "Mount": [("container_path", 1, TEXT), ("host_path", 2, TEXT), ("read_only", 3, TRUTH)],
    "Spec": [("container_path", 1, TEXT), ("host_path", 2, TEXT), ("permissions", 3, TEXT)],
    "Given": [("envs", 1, ["Env"]), ("mounts", 2, ["Mount"]), ("devices", 3, ["Spec"])],
    "Allocated": [("containers", 1, ["Given"])],
}


def classes():
    """The messages; on the wire only numbers and types count, so names here are short ones."""
    file = descriptor_pb2.FileDescriptorProto(name="cards.proto", package="cards", syntax="proto3")
    for name, rows in MESSAGES.items():
        made = file.message_type.add(name=name)
        for field, number, kind in rows:
            many = isinstance(kind, list)
            kind = kind[0] if many else kind
            row = made.field.add(name=field, number=number, label=F.LABEL_REPEATED if many else F.LABEL_OPTIONAL)
            if isinstance(kind, str):
                row.type, row.type_name = F.TYPE_MESSAGE, f".cards.{kind}"
            else:
                row.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"cards.{name}")) for name in MESSAGES}


M = classes()


def which(path):
    """Tell a socket from another of its name, None where there is none: a kubelet that starts again makes a new one."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns  # numbers of files are used again


async def other(path, known):
    """Wait until a file is another one, or gone."""
    while (now := which(path)) == known:  # noqa: ASYNC110
        await asyncio.sleep(LOOK_S)
    return now


class Cards:
    def __init__(self, folder, count):
        self.folder = Path(folder)
        self.names = {f"card-{n}": n % 2 for n in range(count)}
        self.endpoint, self.starts = "", 0

    def listed(self):
        broken = self.folder / "cards.broken"
        ill = broken.read_text().split() if broken.exists() else []
        return [
            M["Device"](
                ID=name,
                health="Unhealthy" if name in ill else "Healthy",
                topology=M["Topology"](nodes=[M["Node"](ID=node)]),
            )
            for name, node in reversed(self.names.items())  # in no order that anybody may rely on
        ]

    async def options(self, request, context):
        return M["Options"](pre_start_required=True, get_preferred_allocation_available=True)

    async def watch(self, request, context):
        said = None
        while True:
            if (now := self.listed()) != said:
                said = now
                yield M["Devices"](devices=now)
            await asyncio.sleep(LOOK_S)

    async def prefer(self, request, context):
        answers = []
        for asked in request.containers:
            nodes = {node: [i for i in asked.available if self.names[i] == node] for node in (1, 0)}
            best = max(nodes.values(), key=len)
            rest = [name for name in asked.available if name not in best]
            chosen = list(dict.fromkeys([*asked.needed, *best, *rest]))[: asked.size]
            answers.append(M["Ids"](ids=chosen))
        return M["Containers"](containers=answers)

    async def allocate(self, request, context):
        if (self.folder / "cards.stubborn").exists():
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "not today")
        answers = []
        for asked in request.containers:
            ids = sorted(asked.ids)
            envs = [M["Env"](key="CARDS", value=",".join(ids))]
            mounts = [M["Mount"](container_path="/mnt", host_path=str(self.folder), read_only=True)]
            devices = [M["Spec"](container_path=f"/dev/{name}", host_path="/dev/zero", permissions="r") for name in ids]
            answers.append(M["Given"](envs=envs, mounts=mounts, devices=devices))
        return M["Allocated"](containers=answers)

    async def before_start(self, request, context):
        with (self.folder / "cards.prepared").open("a") as prepared:
            prepared.write(f"{' '.join(sorted(request.ids))}\n")
        return M["Empty"]()

    def server(self):
        def one(method, request, answer):
            return grpc.unary_unary_rpc_method_handler(method, M[request].FromString, M[answer].SerializeToString)

        methods = {
            "GetDevicePluginOptions": one(self.options, "Empty", "Options"),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                self.watch, M["Empty"].FromString, M["Devices"].SerializeToString
            ),
            "GetPreferredAllocation": one(self.prefer, "Preferences", "Containers"),
            "Allocate": one(self.allocate, "Containers", "Allocated"),
            "PreStartContainer": one(self.before_start, "Ids", "Empty"),
        }
        # Another name each time: gRPC removes the socket of a server that has stopped somewhat later.
        self.starts += 1
        self.endpoint = f"cards-{os.getpid()}-{self.starts}.sock"
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", methods),))
        server.add_insecure_port(f"unix:{self.folder / self.endpoint}")
        return server

    async def register(self):
        options = [("grpc.default_authority", "localhost")]
        async with grpc.aio.insecure_channel(f"unix:{self.folder}/kubelet.sock", options) as channel:
            call = channel.unary_unary(
                "/v1beta1.Registration/Register", M["Register"].SerializeToString, M["Empty"].FromString
            )
            await call(
                M["Register"](version="v1beta1", endpoint=self.endpoint, resource_name=RESOURCE),
                timeout=30,
                wait_for_ready=True,
            )

    async def run(self):
        kubelet = self.folder / "kubelet.sock"
        known = None
        while True:
            known = known or await other(kubelet, None)
            server = self.server()
            await server.start()
            try:
                await self.register()
                print(f"registered {RESOURCE}", flush=True)
            except (grpc.aio.AioRpcError, OSError) as error:
                print(f"not registered: {error}", file=sys.stderr, flush=True)
            known = await other(kubelet, known)
            await server.stop(0)


if __name__ == "__main__":
    asyncio.run(Cards(sys.argv[1], int(sys.argv[2])).run())
