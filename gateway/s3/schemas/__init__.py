"""Documents of S3 operations: what handlers take and return, by family."""
