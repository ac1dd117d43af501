"""SelectObjectContent: SQL over one object, understood here, evaluated by DuckDB in a process of its own."""
