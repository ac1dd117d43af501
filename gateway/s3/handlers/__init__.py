"""One module a family of S3 operations; a handler takes a document and returns one."""
