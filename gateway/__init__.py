"""HTTP: the S3 protocol, authentication, the admin API, and the processes that serve them."""
