"""Problem documents (RFC 9457): the one form in which the admin API says no."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

MEDIA_TYPE: Final = "application/problem+json"


class Problem(Exception):
    """An answer other than success. `code` is a stable word for programs, `detail` a sentence for people.

    `detail` holds nothing from inside the store: no path, trace, statement or text of another system.
    """

    def __init__(
        self, status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **members: object
    ) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})
        self.members = members


def problem_response(problem: Problem, request_id: str) -> Response:
    """The problem as an HTTP response."""
    document = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
        "request_id": request_id,
        **problem.members,
    }
    headers = {**problem.headers, "cache-control": "no-store"}
    return Response(json.dumps(document), problem.status, headers, MEDIA_TYPE)
