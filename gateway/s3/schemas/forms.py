"""The document of a form upload, and what it answers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import quote, urlencode

from gateway.http.call import Answer
from gateway.s3 import forms, xml
from gateway.s3.request import Request
from gateway.s3.schemas import described
from gateway.s3.schemas.answers import XML_TYPE, Headers
from gateway.s3.schemas.objects import PutObject
from gateway.s3.schemas.versions import Written

_STATUSES: Final[Mapping[str, int]] = {"200": 200, "201": 201}
_DEFAULT_STATUS: Final = 204
_URL: Final = re.compile(r"https?://[!-~]{1,2000}")


@dataclass(frozen=True, slots=True)
class PostObject:
    """A content to store under the key of a form, and what its sender wants to hear: a status, or to be sent on."""

    content: PutObject
    status: int
    redirect: str
    location: str

    @classmethod
    async def decode(cls, request: Request) -> Self:
        redirect = request.text(forms.REDIRECT) or request.text(forms.OLD_REDIRECT)
        if redirect and _URL.fullmatch(redirect) is None:
            raise described.invalid(forms.REDIRECT.decode(), redirect, "The redirect must be an absolute URL.")
        status = _STATUSES.get(request.text(forms.STATUS), _DEFAULT_STATUS)
        return cls(await PutObject.decode(request), status, redirect, _location(request))


def _location(request: Request) -> str:
    """Where the content can be read, in the style in which the form was sent."""
    path = request.call.raw_path.decode("latin-1").rstrip("/")
    return f"{request.call.scheme}://{request.text(b'host')}{path}/{quote(request.key)}"


@dataclass(frozen=True, slots=True)
class Posted:
    """A version that a form made."""

    document: PostObject
    bucket: str
    key: str
    written: Written

    def answer(self) -> Answer:
        etag = f'"{self.written.version.etag}"'
        lines = self.written.answer().headers
        if self.document.redirect:
            return Answer(303, [*lines, (b"location", self._redirect(etag).encode())])
        lines = [*lines, (b"location", self.document.location.encode())]
        if self.document.status != 201:
            return Answer(self.document.status, lines)
        return self._created(lines, etag)

    def _redirect(self, etag: str) -> str:
        """The URL asked for, told what was stored."""
        url, hash_mark, fragment = self.document.redirect.partition("#")
        told = urlencode({"bucket": self.bucket, "key": self.key, "etag": etag}, quote_via=quote)
        return f"{url}{'&' if '?' in url else '?'}{told}{hash_mark}{fragment}"

    def _created(self, lines: Headers, etag: str) -> Answer:
        pieces = [
            xml.element("Location", self.document.location),
            xml.element("Bucket", self.bucket),
            xml.element("Key", self.key),
            xml.element("ETag", etag),
        ]
        body = f"{xml.DECLARATION}<PostResponse>{''.join(pieces)}</PostResponse>".encode()
        return Answer(201, [XML_TYPE, *lines], body, len(body))
