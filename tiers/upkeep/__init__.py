"""Background work that keeps the store tidy: reclaim and compaction."""
