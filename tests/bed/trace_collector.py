"""A collector of traces for tests, which reads OTLP by the field's own definition."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@contextmanager
def collecting_traces(
    listener: socket.socket, status: int = 200
) -> Iterator[list[ExportTraceServiceRequest]]:
    """Answer what is exported to a listening socket, until the end; give what has come."""
    got: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("", 0), Handler, bind_and_activate=False) as server:
        server.socket.close()
        server.socket = listener
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield got
        finally:
            server.shutdown()
            thread.join()
