"""Which URLs open a database, and what an error may say."""

import pytest

from metadata.errors import MetadataRefused
from metadata.postgresql import PostgresqlMetadata
from metadata.session import open_metadata
from metadata.sqlite import SqliteMetadata


def test_urls_choose_the_database() -> None:
    assert isinstance(open_metadata("sqlite:////nowhere/isotherm.db"), SqliteMetadata)
    assert isinstance(open_metadata("postgresql://user@host/name"), PostgresqlMetadata)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "isotherm.db",
        "sqlite://",
        "sqlite:///relative.db",
        "mysql://u:secret@h/d",
        "postgresql+psycopg://u:secret@h/d",
    ],
)
def test_other_urls_are_refused_without_their_password(url: str) -> None:
    with pytest.raises(MetadataRefused) as caught:
        open_metadata(url)
    assert "secret" not in str(caught.value)
