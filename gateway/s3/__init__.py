"""The S3 protocol: operations, documents, errors; no disk and no SQL."""
