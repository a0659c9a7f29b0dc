"""A web server in a store's place: whatever is asked for, it answers one text."""

import time
from http.server import BaseHTTPRequestHandler, HTTPServer

from tests.bed.stand_in import StandInServer


class Page(StandInServer):
    """Serves `body` at `url`, and its head a moment before it."""

    def __init__(self, body: bytes = b"hello") -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                time.sleep(0.2)  # the body may come later than the head
                self.wfile.write(body)

            def do_PUT(self) -> None:
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        super().__init__(server)
        self.url = f"http://127.0.0.1:{server.server_port}"

    def let_go(self) -> None:
        """Nobody is kept waiting."""
