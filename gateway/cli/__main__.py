"""`python -m gateway.cli`: the command line without an installed console script."""

from gateway.cli.commands import main

main()
