"""The table: medians over the interleaved rounds, ratio to the best peer, CPU beside every rate."""

import json
import os
import statistics
import subprocess
from pathlib import Path

from benchmarks.cells import Cell
from benchmarks.servers import Server

ROOT = Path(__file__).resolve().parent


def median(server: Server, cell: Cell, field: str) -> float | None:
    rounds = server.results.get(cell.name)
    return statistics.median(r[field] for r in rounds) if rounds else None


def entry(server: Server, cell: Cell) -> str:
    rate = median(server, cell, "rate")
    if rate is None:
        return "–"
    cpu = median(server, cell, "cpu")
    return f"{rate:.2f} ({cpu:.2f})" if cell.is_big else f"{rate:,.0f} ({cpu:,.0f})"


def row(cell: Cell, ours: Server, peers: list[Server]) -> str:
    mine = median(ours, cell, "rate")
    best = max((rate for peer in peers if (rate := median(peer, cell, "rate")) is not None), default=None)
    ratio = f"**{mine / best:.2f} ×**" if mine is not None and best else "–"
    p50, p99 = median(ours, cell, "p50_us"), median(ours, cell, "p99_us")
    latency = f"{p50 / 1000:.2f} / {p99 / 1000:.2f}" if p50 is not None and p99 is not None else "–"
    columns = [cell.name, ratio, entry(ours, cell), latency, *(entry(peer, cell) for peer in peers)]
    return f"| {' | '.join(columns)} |"


def commit() -> str:
    answer = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() or "?"


def render(servers: list[Server], cells: list[Cell], rounds: int, load: float) -> str:
    """The whole result as Markdown."""
    ours, peers = servers[0], servers[1:]
    lines = [
        "# Measured beside the peers",
        "",
        f"Commit {commit()}, {os.cpu_count()} cores, client and server on the same machine over loopback, {rounds}",
        f"interleaved rounds, medians; load average before the run {load:.1f}. Small cells: requests a second (CPU",
        "microseconds of the server a request); 64 MiB cells: GB/s (CPU seconds a GB). p50 / p99 in milliseconds are",
        "ours, seen from the client. Presigned requests, random bodies, reads from a warm page cache.",
        "",
        f"| cell | to the best peer | {ours.name} | p50 / p99 ms | " + " | ".join(peer.name for peer in peers) + " |",
        "|---|---|---|---|" + "---|" * len(peers),
        *(row(cell, ours, peers) for cell in cells),
        "",
        "| server | version | what an acknowledged PUT means | flush calls |",
        "|---|---|---|---|",
        *(f"| {s.name} | {s.version} | {s.protection} | {s.flushes} |" for s in servers),
        "",
    ]
    return "\n".join(lines)


def write(servers: list[Server], cells: list[Cell], rounds: int, load: float) -> str:
    """Write RESULTS.md and results.json beside this file; the table."""
    text = render(servers, cells, rounds, load)
    (ROOT / "RESULTS.md").write_text(text)
    raw = {server.name: {"version": server.version, "rounds": server.results} for server in servers}
    about = {"commit": commit(), "cores": os.cpu_count(), "load": load, "servers": raw}
    (ROOT / "results.json").write_text(json.dumps(about, indent=1) + "\n")
    return text
