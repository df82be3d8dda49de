"""A tenant of a simulated card: `hog.py SOCKET MIB...`, has so much of its memory, each amount for two seconds."""

import socket
import sys
import time

connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
connection.connect(sys.argv[1])
for mib in sys.argv[2:]:
    connection.sendall(f"A {mib}\n".encode())
    connection.recv(16)
    print("has", mib, flush=True)
    time.sleep(2)
time.sleep(600)
