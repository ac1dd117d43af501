"""What is wrong with a query or with what it reads, by AWS's code; the gateway's and the worker's one language."""


class SelectRefused(Exception):
    """A fault of the client's query or of the object; `code` is a name of `gateway.s3.errors.S3Code`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
