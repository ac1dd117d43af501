"""A small transit secrets engine over HTTP, for tests: the two calls of the real one that wrap and unwrap."""

import base64
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

TOKEN = "canary-transit-token-0001"


class TransitEngine:
    """Serves on a free loopback port. `keys` are the named keys; `answers` counts the calls; `fault` replaces one."""

    def __init__(self, *names: str) -> None:
        self.keys = {name: [os.urandom(32)] for name in names}
        self.calls: list[str] = []
        self.fault: tuple[int, bytes] | None = None
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                document = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status, body = engine.answer(self.path, self.headers.get("x-vault-token", ""), document)
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def rotate(self, name: str) -> None:
        self.keys[name].append(os.urandom(32))

    def answer(self, path: str, token: str, document: dict[str, str]) -> tuple[int, bytes]:
        self.calls.append(path)
        if self.fault is not None:
            return self.fault
        if token != TOKEN:
            return 403, b'{"errors":["permission denied"]}'
        _, version, mount, verb, name = path.split("/")
        if (version, mount) != ("v1", "transit"):
            return 404, b'{"errors":["no handler for route"]}'
        if name not in self.keys:
            return 400, b'{"errors":["encryption key not found"]}'
        data = self._encrypt(name, document) if verb == "encrypt" else self._decrypt(name, document)
        if data is None:
            return 400, b'{"errors":["cipher: message authentication failed"]}'
        return 200, json.dumps({"data": data}).encode()

    def _encrypt(self, name: str, document: dict[str, str]) -> dict[str, str]:
        nonce, newest = os.urandom(12), len(self.keys[name])
        sealed = AESGCM(self.keys[name][-1]).encrypt(nonce, base64.b64decode(document["plaintext"]), None)
        return {"ciphertext": f"vault:v{newest}:{base64.b64encode(nonce + sealed).decode()}"}

    def _decrypt(self, name: str, document: dict[str, str]) -> dict[str, str] | None:
        try:
            _, version, text = document["ciphertext"].split(":")
            raw = base64.b64decode(text, validate=True)
            plain = AESGCM(self.keys[name][int(version[1:]) - 1]).decrypt(raw[:12], raw[12:], None)
        except (ValueError, IndexError, InvalidTag):
            return None
        return {"plaintext": base64.b64encode(plain).decode()}
