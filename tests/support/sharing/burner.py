"""A tenant of a simulated card: `burner.py SOCKET KERNEL_MS DEPTH`, keeps so many kernels queued forever."""

import socket
import sys

path, kernel_ms, depth = sys.argv[1], sys.argv[2], int(sys.argv[3])
connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
connection.connect(path)
kernel = f"K {kernel_ms}\n".encode()
connection.sendall(kernel * depth)
while done := connection.recv(4096):
    connection.sendall(kernel * done.count(b"D"))
