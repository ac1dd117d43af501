"""Buckets, versions, listings and uploads: the only join of metadata and bytes for requests."""
