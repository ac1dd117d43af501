"""Brings a database's schema to the newest revision this program knows, and refuses one it does not know.

Owns the programmatic use of Alembic; the revisions are in `metadata/migrations/versions`. There is no downgrade: an
older program refuses a newer database, and going back means restoring a snapshot.
"""

from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, text

from metadata.errors import MetadataRefused

SCRIPTS: Final = Path(__file__).parent / "migrations"
NEWEST: Final = "0004"
"""The revision that this program is written for."""


def upgrade(connection: Connection) -> None:
    """Run what is missing, within the caller's open transaction.

    Atomicity: all of it or nothing, as the caller commits; the caller also keeps other upgraders out.
    Errors: MetadataRefused when the database is at a revision this program does not know; nothing was changed.
    """
    if _is_newest(connection):
        return
    # Alembic takes as long to load as all the rest of this package, and most starts find nothing to do.
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    present = set(MigrationContext.configure(connection).get_current_heads())
    if not present <= known:
        raise MetadataRefused(f"schema revision {', '.join(sorted(present - known))} is unknown to this program")
    command.upgrade(config, "head")


def _is_newest(connection: Connection) -> bool:
    if not inspect(connection).has_table("alembic_version"):
        return False
    return connection.execute(text("select version_num from alembic_version")).scalars().all() == [NEWEST]
