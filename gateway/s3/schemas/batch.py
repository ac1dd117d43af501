"""The document of a batch of HEADs, and its answer.

`{"keys": ["...", ...]}` is read by a scanner of exactly this form: a document costs what its keys cost, and nothing
that a general parser would build of hostile nesting ever exists.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from gateway.http.call import Answer
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Request

KEYS_MAX: Final = 1000
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""A thousand keys of 1024 bytes, each byte escaped as `\\u00xx`, and white space."""

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True)
class BatchHead:
    """The keys asked about, in order; one may come twice."""

    keys: tuple[str, ...]

    @classmethod
    async def decode(cls, request: Request) -> Self:
        try:
            text = (await request.read_document(BATCH_BYTES_MAX)).decode()
        except UnicodeDecodeError:
            raise _malformed() from None
        return cls(read_keys(text))


def read_keys(text: str) -> tuple[str, ...]:
    """The keys of a document. Errors: InvalidRequest for any other form, an empty key, or more than 1000 keys."""
    at = _skip(text, 0, "{")
    name, at = _string(text, at)
    if name != "keys":
        raise _malformed()
    at = _skip(text, _skip(text, at, ":"), "[")
    keys: list[str] = []
    if not text.startswith("]", at):
        key, at = _string(text, at)
        keys.append(key)
    while text.startswith(",", at):
        if len(keys) >= KEYS_MAX:
            raise S3Error(S3Code.InvalidRequest, f"A batch names at most {KEYS_MAX} keys.")
        key, at = _string(text, _skip(text, at, ","))
        keys.append(key)
    at = _skip(text, _skip(text, at, "]"), "}")
    if at != len(text):
        raise _malformed()
    return tuple(keys)


def _skip(text: str, at: int, mark: str) -> int:
    """Behind white space, `mark` and white space."""
    at = _end_of_space(text, at)
    if not text.startswith(mark, at):
        raise _malformed()
    return _end_of_space(text, at + 1)


def _end_of_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    assert space is not None
    return space.end()


def _string(text: str, at: int) -> tuple[str, int]:
    """The string at a place, and where the white space behind it ends. Errors: InvalidRequest, also for no UTF-8."""
    if not text.startswith('"', at):
        raise _malformed()
    try:
        value, end = _DECODER.raw_decode(text, at)
        value.encode()
    except (json.JSONDecodeError, UnicodeEncodeError):
        raise _malformed() from None
    if not value:
        raise _malformed()
    return value, _end_of_space(text, end)


def _malformed() -> S3Error:
    return S3Error(S3Code.InvalidRequest, 'The body must be {"keys": ["...", ...]} with keys that are not empty.')


class KeyStatus(NamedTuple):
    """What HEAD would say of one key: 200, 400, 403 or 404, and of 200 the rest."""

    key: str
    status: int
    size: int = 0
    etag: str = ""
    tier: str = ""
    storage_class: str = ""

    def element(self) -> dict[str, Any]:
        """As the document has it. `restore` is what x-amz-restore would say: nothing yet."""
        if self.status != 200:
            return {"key": self.key, "status": self.status}
        return {**self._asdict(), "restore": None}


@dataclass(frozen=True, slots=True)
class Statuses:
    """The answers in the order of the keys."""

    objects: Sequence[KeyStatus]

    def answer(self) -> Answer:
        document = {"objects": [status.element() for status in self.objects]}
        body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        return Answer(200, [(b"content-type", b"application/json")], body, len(body))
