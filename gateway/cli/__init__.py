"""The command line: `isotherm <noun> <verb>`, every listing with `--json`."""

from gateway.cli.commands import main

__all__ = ["main"]
