#!/usr/bin/env python3
"""One request to the native door from a terminal of one's own: what only a person may do. `person.py SOCKET REQUEST`; started by kit.py."""
import socket
import sys

s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode() + b"\n")
print(s.makefile().readline().strip())
