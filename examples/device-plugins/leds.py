#!/usr/bin/env python3
"""A device plugin of no vendor: `example.com/led`, small lamps that are simulated by /dev/null.

Written from the API's .proto alone, with grpcio and nothing of mesos-gpu: messages are put together byte by byte, so it
shows what goes over the wire. It runs under a kubelet as under `mesos-gpu-agent --device_plugins_dir=FOLDER`:

    examples/device-plugins/leds.py FOLDER 4

Lamps whose names stand in FOLDER/leds.broken, one a line, are unhealthy, for as long as they stand there. While
FOLDER/leds.cdi is there lamps are given by their CDI names, example.com/led=led0, for whoever starts the container.
"""

import os
import sys
import threading
from concurrent import futures
from pathlib import Path

import grpc

RESOURCE = "example.com/led"
LOOK_S = 0.1


def number(value):
    """A varint."""
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(at, value):
    """A field of text, bytes or a whole number."""
    if isinstance(value, int):
        return number(at << 3) + number(value)
    value = value.encode() if isinstance(value, str) else value
    return number(at << 3 | 2) + number(len(value)) + value


def fields(data):
    """Yield the numbers and bytes of a message whose fields all have a length."""
    at = 0

    def read():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key, size = read(), read()
        yield key >> 3, data[at : at + size]
        at += size


def which(path):
    """Tell a socket from another of its name, None where there is none: a kubelet that starts again makes a new one."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns  # numbers of files are used again


class Leds:
    def __init__(self, folder, count):
        self.folder, self.names = Path(folder), [f"led{n}" for n in range(count)]
        self.ended = threading.Event()
        self.endpoint, self.starts = "", 0

    def healthy(self):
        try:
            broken = (self.folder / "leds.broken").read_text().split()
        except FileNotFoundError:
            broken = []
        return [(name, "Unhealthy" if name in broken else "Healthy") for name in self.names]

    def options(self, request, context):
        return b""

    def watch(self, request, context):
        """ListAndWatch: the whole list, and again whenever it changes."""
        said = None
        while context.is_active() and not self.ended.is_set():
            if (now := self.healthy()) != said:
                said = now
                yield b"".join(field(1, field(1, name) + field(2, health)) for name, health in now)
            self.ended.wait(LOOK_S)

    def allocate(self, request, context):
        """Allocate: each container gets its lamps as device nodes and by name."""
        answer = b""
        for _, container in fields(request):
            names = [name.decode() for _, name in fields(container)]
            if strange := sorted(set(names) - set(self.names)):
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"there is no lamp {', '.join(strange)}")
            pair = field(1, "LEDS") + field(2, ",".join(sorted(names)))
            if (self.folder / "leds.cdi").exists():
                devices = (field(5, field(1, f"{RESOURCE}={name}")) for name in sorted(names))
                answer += field(1, field(1, pair) + b"".join(devices))
                continue
            specs = [field(1, f"/dev/{name}") + field(2, "/dev/null") + field(3, "rw") for name in sorted(names)]
            answer += field(1, field(1, pair) + b"".join(field(3, spec) for spec in specs))
        return answer

    def serve(self):
        # Another name each time: gRPC removes the socket of a server that has stopped somewhat later.
        self.starts += 1
        self.endpoint = f"leds-{os.getpid()}-{self.starts}.sock"
        methods = {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(self.options),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self.watch),
            "Allocate": grpc.unary_unary_rpc_method_handler(self.allocate),
        }
        server = grpc.server(futures.ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", methods),))
        server.add_insecure_port(f"unix:{self.folder / self.endpoint}")
        server.start()
        return server

    def register(self):
        channel = grpc.insecure_channel(f"unix:{self.folder}/kubelet.sock", [("grpc.default_authority", "localhost")])
        with channel:
            request = field(1, "v1beta1") + field(2, self.endpoint) + field(3, RESOURCE)
            channel.unary_unary("/v1beta1.Registration/Register")(request, timeout=30, wait_for_ready=True)

    def run(self):
        """Serve and register; again with each kubelet that takes the place of the one before."""
        kubelet = self.folder / "kubelet.sock"
        while True:
            while (known := which(kubelet)) is None:
                self.ended.wait(LOOK_S)
            server = self.serve()
            try:
                self.register()
                print(f"registered {RESOURCE}", flush=True)
            except (grpc.RpcError, OSError) as error:
                print(f"not registered: {error}", file=sys.stderr, flush=True)
            while which(kubelet) == known:
                self.ended.wait(LOOK_S)
            server.stop(0).wait()


if __name__ == "__main__":
    Leds(sys.argv[1], int(sys.argv[2])).run()
