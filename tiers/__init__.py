"""Bytes and what moves them."""
