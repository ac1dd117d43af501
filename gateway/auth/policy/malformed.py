"""How a policy document is refused."""


class MalformedPolicy(Exception):
    """The document is no policy this store can keep; the text says why and holds nothing secret."""
