"""Places for fragments and pack files, under one contract."""
