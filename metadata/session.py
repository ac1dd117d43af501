"""Opens the metadata database that a URL names. The one door into this package for the layers above."""

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from metadata.contract import Metadata
from metadata.errors import MetadataRefused


def open_metadata(url: str) -> Metadata:
    """The database behind `sqlite:////absolute/path` or `postgresql://user:password@host:port/name`.

    Connects to nothing yet; SQLite's file and its lock file appear with the first use, in a directory that exists.
    Errors: MetadataRefused for any other URL. The text of an error never repeats the URL: it may hold a password.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise MetadataRefused("the metadata URL cannot be parsed") from error
    if parsed.drivername == "sqlite":
        from metadata.sqlite import SqliteMetadata

        return SqliteMetadata(parsed)
    if parsed.drivername == "postgresql":
        # Here and not above: who uses SQLite need not install asyncpg.
        from metadata.postgresql import PostgresqlMetadata

        return PostgresqlMetadata(parsed)
    raise MetadataRefused(f"metadata on {parsed.drivername} is not supported")
