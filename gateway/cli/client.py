"""A client of the admin API: bearer token, no redirects, no proxy, deadlines, bounded answers."""

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

ANSWER_BYTES_MAX: Final = 64 << 20
TIMEOUT_SECONDS: Final = 30.0


class AdminRefused(Exception):
    """The admin API said no, or could not be reached; the text is for the person at the command line."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class AdminClient:
    """Calls one admin API. `url` is `http://host:port` or `https://host:port`."""

    def __init__(self, url: str, token: str) -> None:
        """Errors: AdminRefused when the URL is not one."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise AdminRefused(f"{url} is not an http or https URL")
        self._url = url
        self._parts = parts
        self._token = token

    def call(self, method: str, path: str, document: Mapping[str, object] | None = None) -> Any:  # noqa: ANN401  # JSON
        """The answer's document, None when it has none. `path` begins below /admin/v1. Errors: AdminRefused."""
        body = None if document is None else json.dumps(document).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = self._connect()
        try:
            connection.request(method, f"/admin/v1{path}", body, headers)
            response = connection.getresponse()
            raw = response.read(ANSWER_BYTES_MAX)
        except (OSError, http.client.HTTPException) as error:
            raise AdminRefused(f"cannot reach {self._url}: {error}") from error
        finally:
            connection.close()
        return _document_of(response.status, raw)

    def pages(self, path: str, member: str) -> Iterator[dict[str, Any]]:
        """Every entry of a listing, page by page. Errors: AdminRefused."""
        cursor = ""
        while True:
            query = urlencode({"limit": 1000, **({"cursor": cursor} if cursor else {})})
            page = self.call("GET", f"{path}?{query}")
            yield from page[member]
            cursor = page["next_cursor"]
            if not cursor:
                return

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(
                host, port, timeout=TIMEOUT_SECONDS, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)


def segment(text: str) -> str:
    """One path segment, percent-encoded."""
    return quote(text, safe="")


def _document_of(status: int, raw: bytes) -> Any:  # noqa: ANN401  # JSON
    try:
        document = json.loads(raw) if raw else None
    except ValueError:
        raise AdminRefused(f"the answer ({status}) is not JSON: is this the admin port?", status) from None
    if status >= 400:
        detail = document.get("detail", "") if isinstance(document, dict) else ""
        raise AdminRefused(str(detail) or f"refused with {status}", status)
    return document
