"""Lifecycle rules of buckets: what becomes of a version, and when."""
