"""A webhook receiver for tests: a real HTTP server that keeps what it is sent, and answers as the test says."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Receiver:
    """Keeps (headers, body) of each post it answered 200. `status` is what it answers; it stays on its port."""

    def __init__(self) -> None:
        self.posts: list[tuple[dict[str, str], bytes]] = []
        self.status = 200
        self.refused = 0
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                body = self.rfile.read(length)
                if len(body) < length:  # the store was killed in the middle of the post
                    self.close_connection = True
                    return
                with receiver._lock:
                    status = receiver.status
                    if status == 200:
                        receiver.posts.append((dict(self.headers), body))
                    else:
                        receiver.refused += 1
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def records(self) -> list[dict[str, Any]]:
        """The records received, in order; test events left out."""
        with self._lock:
            documents = [json.loads(body) for _, body in self.posts]
        return [record for document in documents for record in document.get("Records", [])]

    def wait(self, count: int, *, seconds: float = 30) -> list[dict[str, Any]]:
        """The records, once there are so many different ones."""
        deadline = time.monotonic() + seconds
        while len({record["s3"]["object"]["sequencer"] for record in self.records}) < count:
            assert time.monotonic() < deadline, f"{len(self.records)} of {count} events came"
            time.sleep(0.02)
        return self.records
