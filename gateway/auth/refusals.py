"""How this package says no: by the name of an S3 code, because the catalogue of codes lies above this package."""

from collections.abc import Sequence


class Refused(Exception):
    """The request is refused; nothing of it may be acted on.

    `code` is the name of a member of `gateway.s3.errors.S3Code` (a test holds this). `message` None means the code's
    own text. `elements` are further elements of the error document; none ever carries a signature or a secret.
    """

    def __init__(self, code: str, message: str | None = None, **elements: str) -> None:
        super().__init__(code)
        self.code = code
        self.message = message
        self.elements = elements

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.message else self.code


def not_signed(names: Sequence[str]) -> Refused:
    """The refusal of headers that would act although the signature does not cover them."""
    return Refused(
        "AccessDenied",
        "There were headers present in the request which were not signed",
        HeadersNotSigned=", ".join(names),
    )
