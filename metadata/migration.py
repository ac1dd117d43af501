"""Brings a database's schema to the newest revision this program knows, and refuses one it does not know.

Owns the programmatic use of Alembic; the revisions are in `metadata/migrations/versions`. There is no downgrade: an
older program refuses a newer database, and going back means restoring a snapshot.
"""

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from metadata.errors import MetadataRefused

SCRIPTS: Final = Path(__file__).parent / "migrations"


def upgrade(connection: Connection) -> None:
    """Run what is missing, within the caller's open transaction.

    Atomicity: all of it or nothing, as the caller commits; the caller also keeps other upgraders out.
    Errors: MetadataRefused when the database is at a revision this program does not know; nothing was changed.
    """
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    present = set(MigrationContext.configure(connection).get_current_heads())
    if not present <= known:
        raise MetadataRefused(f"schema revision {', '.join(sorted(present - known))} is unknown to this program")
    command.upgrade(config, "head")
