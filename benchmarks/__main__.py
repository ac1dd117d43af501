"""`python -m benchmarks`: start every server, measure every cell in interleaved rounds, print and write the table."""

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks import table
from benchmarks.cells import CELLS, Cell, flushes, measure, prepare
from benchmarks.servers import KINDS, Server, running
from benchmarks.wire import NotMeasured


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2, help="length of one round of a small cell")
    parser.add_argument("--cells", default="", help="only cells whose name contains this text")
    parser.add_argument(
        "--servers", default=",".join(KINDS), help="comma-separated; the first is compared with the rest"
    )
    parser.add_argument("--folder", type=Path, help="where the servers keep their data (default: a temporary folder)")
    parser.add_argument("--print-only", action="store_true", help="do not write RESULTS.md and results.json")
    return parser.parse_args()


def start(names: list[str], folder: Path, stack: contextlib.ExitStack) -> list[Server]:
    """Every server that starts and keeps what it stores; the others are named and left out."""
    servers = []
    for name in names:
        server = stack.enter_context(running(name, folder))
        try:
            prepare(server)
        except NotMeasured as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
            continue
        servers.append(server)
        print(f"{name} {server.version} ready", file=sys.stderr, flush=True)
    return servers


def run_rounds(servers: list[Server], cells: list[Cell], options: argparse.Namespace, folder: Path) -> None:
    """A, B, C, A, B, C: a neighbour's burst hits every server alike. The first round of a write warms memory only."""
    for cell in cells:
        warm = 1 if cell.kind.startswith("PUT") else 0
        for number in range(options.rounds + warm):
            for server in servers:
                try:
                    result = measure(server, cell, folder, options.seconds)
                except NotMeasured as error:
                    print(f"{server.name}, {cell.name}: not measured: {error}", file=sys.stderr)
                    continue
                if number >= warm:
                    server.results.setdefault(cell.name, []).append(result)
        rates = {s.name: [round(r["rate"], 2) for r in s.results.get(cell.name, [])] for s in servers}
        print(cell.name, rates, file=sys.stderr, flush=True)


def main() -> int:
    options = parse()
    load = os.getloadavg()[0]
    cells = [cell for cell in CELLS if options.cells in cell.name]
    folder = options.folder or Path(tempfile.mkdtemp(prefix="isotherm-bench-"))
    try:
        with contextlib.ExitStack() as stack:
            servers = start(options.servers.split(","), folder, stack)
            run_rounds(servers, cells, options, folder)
            for server in servers:
                with contextlib.suppress(NotMeasured):
                    server.flushes = flushes(server, folder)
            make = table.render if options.print_only else table.write
            print(make(servers, cells, options.rounds, load))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
