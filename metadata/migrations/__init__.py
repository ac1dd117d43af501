"""Alembic revisions of the metadata schema."""
