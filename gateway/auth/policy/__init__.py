"""Bucket policies: from the JSON document to a compiled value that answers "allow", "deny" or nothing."""
