"""TCP connections that begin and end, one after another, as a process in a pod's namespace.

    serve ADDRESS PORT              accept and end them, until it is ended; prints `ready` first
    dial ADDRESS PORT SECONDS RATE  begin so many a second, 0 for as many as there can be; prints
                                    how many there were a second

Each sends one byte and gets one.
"""

import socket
import sys
import time


def serve(address: str, port: int) -> None:
    """Accept connections, for ever."""
    with socket.create_server((address, port), backlog=128, reuse_port=True) as server:
        print("ready", flush=True)
        while True:
            end, _ = server.accept()
            with end:
                end.sendall(end.recv(1))


def dial(address: str, port: int, seconds: float, rate: float) -> float:
    """Begin connections for a while; return how many a second."""
    began, count = time.monotonic(), 0
    while (now := time.monotonic()) < began + seconds:
        if rate and count > rate * (now - began):
            time.sleep(0.001)
            continue
        with socket.create_connection((address, port), timeout=10) as end:
            end.sendall(b"x")
            end.recv(1)
        count += 1
    return count / (time.monotonic() - began)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", address, port]:
            serve(address, int(port))
        case ["dial", address, port, seconds, rate]:
            print(dial(address, int(port), float(seconds), float(rate)))
        case _:
            sys.exit(__doc__)
