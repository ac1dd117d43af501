"""Ours and the peers side by side on one machine: `make bench`."""
