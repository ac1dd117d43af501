"""Placement, streaming writes, verified reads."""
