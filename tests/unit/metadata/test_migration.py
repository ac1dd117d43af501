"""The newest revision is written down twice: alembic is loaded only when a database is behind it."""

from alembic.script import ScriptDirectory

import metadata.migrations
from metadata.migration import NEWEST


def test_the_newest_revision_is_alembics_head() -> None:
    folder = metadata.migrations.__path__[0]
    assert ScriptDirectory(folder).get_current_head() == NEWEST
