"""Metrics, access log and process log: what a process tells its operators, and nothing that is secret."""
