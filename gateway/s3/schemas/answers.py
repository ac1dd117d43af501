"""The few shapes that most answers have."""

from dataclasses import dataclass, field

from gateway.http.call import Answer

Headers = list[tuple[bytes, bytes]]
XML_TYPE = (b"content-type", b"application/xml")


@dataclass(frozen=True, slots=True)
class Plain:
    """200 without a body."""

    headers: Headers = field(default_factory=list)

    def answer(self) -> Answer:
        return Answer(200, headers=list(self.headers))


@dataclass(frozen=True, slots=True)
class NoContent:
    """204."""

    headers: Headers = field(default_factory=list)

    def answer(self) -> Answer:
        return Answer(204, headers=list(self.headers))


@dataclass(frozen=True, slots=True)
class Xml:
    """200 with a document."""

    body: bytes
    headers: Headers = field(default_factory=list)

    def answer(self) -> Answer:
        return Answer(200, [XML_TYPE, *self.headers], self.body, len(self.body))
