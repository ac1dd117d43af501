"""Alembic's entry point. The connection comes from `metadata.migration`; there is no ini file and no offline mode."""

from alembic import context

from metadata.models import SCHEMA

connection = context.config.attributes["connection"]
# The caller's transaction holds the whole upgrade: SQLite rolls its schema back as PostgreSQL does.
context.configure(connection=connection, target_metadata=SCHEMA, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
