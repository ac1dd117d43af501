"""The metadata database: the only package that knows SQLAlchemy."""
