"""What nvidia-docker-plugin 1.0.1 showed of a Tesla P100, as documents and byte for byte."""

from __future__ import annotations

from typing import Any

INFO: dict[str, Any] = {
    "Version": {"Driver": "390.48", "CUDA": "9.1"},
    "Devices": [
        {
            "UUID": "GPU-1d0f",
            "Path": "/dev/nvidia0",
            "Model": "Tesla P100-PCIE-16GB",
            "Power": 250,
            "CPUAffinity": 0,
            "PCI": {"BusID": "0000:3B:00.0", "BAR1": 16384, "Bandwidth": 15760},
            "Clocks": {"Cores": 1328, "Memory": 715},
            "Topology": [{"BusID": "0000:AF:00.0", "Link": 1}],
            "Family": "Pascal",
            "Arch": "6.0",
            "Cores": 3584,
            "Memory": {
                **{"ECC": True, "Global": 16276, "Shared": 64, "Constant": 64, "L2Cache": 4096, "Bandwidth": 732160},
            },
        }
    ],
}
INFO_TEXT = """
Driver version:          390.48
Supported CUDA version:  9.1

Device #0
  Model:         Tesla P100-PCIE-16GB
  UUID:          GPU-1d0f
  Path:          /dev/nvidia0
  Family:        Pascal
  Arch:          6.0
  Cores:         3584
  Power:         250 W
  CPU Affinity:  NUMA node0
  PCI
    Bus ID:     0000:3B:00.0
    BAR1:       16384 MiB
    Bandwidth:  15760 MB/s
  Memory
    ECC:        true
    Global:     16276 MiB
    Constant:   64 KiB
    Shared:     64 KiB
    L2 Cache:   4096 KiB
    Bandwidth:  732160 MB/s
  Clocks
    Cores:   1328 MHz
    Memory:  715 MHz
  P2P Available
    0000:AF:00.0 - Cross CPU socket

"""
STATUS: dict[str, Any] = {
    "Devices": [
        {
            "Power": 61,
            "Temperature": 41,
            "Utilization": {"GPU": 12, "Memory": 3, "Encoder": 0, "Decoder": 0},
            "Memory": {"GlobalUsed": 2310, "ECCErrors": {"L1Cache": 0, "L2Cache": 0, "Global": 0}},
            "Clocks": {"Cores": 1189, "Memory": 715},
            "PCI": {"BAR1Used": 2, "Throughput": {"RX": 4, "TX": 1}},
            "Processes": [{"PID": 4711, "Name": "python3", "MemoryUsed": 2303}],
        }
    ]
}
STATUS_TEXT = """
Device #0
  Power:        61 / 250 W
  Temperature:  41 °C
  Utilization
    GPU:      12 %
    Memory:   3 %
    Encoder:  0 %
    Decoder:  0 %
  Memory
    Global:  2310 / 16276 MiB
    ECC Errors
      L1 Cache:  0
      L2 Cache:  0
      Global:    0
  PCI
    BAR1:  2 / 16384 MiB
    Throughput
      RX:  4 MB/s
      TX:  1 MB/s
  Clocks
    Cores:   1189 MHz
    Memory:  715 MHz
  Processes
    - PID:     4711
      Name:    python3
      Memory:  2303 MiB

"""
