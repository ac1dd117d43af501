"""The cells of the table: how each is prepared, checked and measured. Every figure is a rate with its CPU beside it."""

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import Server, cpu_seconds, process_tree
from benchmarks.wire import Connection, NotMeasured, must, target

BUCKET = "bench"
KEYS = 1000
LIST_KEYS = 10_000
BIG_BYTES = 64 << 20

# What wrk runs: the targets of the list file in turn; exact percentiles at the end.
LUA = """
local targets, at = {}, 0
function init(args)
  for line in io.lines(args[1]) do targets[#targets + 1] = line end
  at = math.random(0, #targets - 1)
  wrk.method = args[2]
  if args[3] ~= "" then local f = io.open(args[3], "rb"); wrk.body = f:read("*a"); f:close() end
end
function request() at = at + 1; return wrk.format(nil, targets[at % #targets + 1]) end
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("RESULT %d %d %.1f %.1f %d %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), e.status, e.connect + e.read + e.write + e.timeout))
end
"""


@dataclass(frozen=True)
class Cell:
    """One row of the table. `size` in bytes, `kind` PUT, GET, LIST, PUTBIG or GETBIG."""

    kind: str
    size: int
    connections: int

    @property
    def name(self) -> str:
        if self.kind == "LIST":
            return f"LIST 1,000 of 10,000 c{self.connections}"
        unit = f"{self.size >> 20} MiB" if self.size >= 1 << 20 else f"{self.size >> 10} KiB"
        return f"{self.kind[:3]} {unit} c{self.connections}"

    @property
    def is_big(self) -> bool:
        return self.kind.endswith("BIG")

    @property
    def unit(self) -> str:
        return "GB/s" if self.is_big else "req/s"


CELLS = (
    *(Cell(kind, size, c) for kind in ("PUT", "GET") for size in (4096, 65536) for c in (1, 16, 64)),
    Cell("LIST", 0, 1),
    Cell("LIST", 0, 16),
    *(Cell(kind, BIG_BYTES, c) for kind in ("PUTBIG", "GETBIG") for c in (1, 4)),
)


def key(size: int, number: int) -> str:
    return f"/{BUCKET}/s{size}/{number // 100:03d}/{number:06d}"


def prepare(server: Server) -> None:
    """The bucket and the keys of LIST, and the proof that the server stores what it answers for."""
    connection = Connection(server)
    for bucket in (BUCKET, "listing"):
        status, answer = connection.call("PUT", f"/{bucket}")
        must(status in (200, 409), f"create bucket: {status} {answer[:200]!r}")
    for size in (4096, 65536):
        body = os.urandom(size)
        for number in range(KEYS):
            status, answer = connection.call("PUT", key(size, number), body)
            must(status == 200, f"seeding: {status} {answer[:200]!r}")
        must(connection.call("GET", key(size, KEYS // 2))[1] == body, "a stored object reads back changed")
    for number in range(LIST_KEYS):
        must(connection.call("PUT", f"/listing/{number:06d}", b"x")[0] == 200, "seeding the listing")
    page = connection.call("GET", "/listing", query={"list-type": "2", "max-keys": "1000"})[1]
    must(page.count(b"<Key>") == 1000, f"LIST gave {page.count(b'<Key>')} keys, not 1000")
    piece = memoryview(os.urandom(1 << 20))
    for number in range(4):
        connection.send("PUT", target(server, "PUT", f"/{BUCKET}/big{number}"), BIG_BYTES, piece)
        must(connection.receive(keep=True)[0] == 200, "seeding the big objects")


def measure(server: Server, cell: Cell, folder: Path, seconds: int) -> dict[str, float]:
    """One round of one cell. Errors: NotMeasured on any answer that is not 2xx."""
    before = cpu_seconds(server.process.pid)
    result = (_big if cell.is_big else _wrk)(server, cell, folder, seconds)
    cpu = cpu_seconds(server.process.pid) - before
    done = result.pop("done")
    result["cpu"] = cpu / (done * cell.size / 1e9) if cell.is_big else cpu / max(done, 1) * 1e6
    return result


def _wrk(server: Server, cell: Cell, folder: Path, seconds: int) -> dict[str, float]:
    method = "PUT" if cell.kind == "PUT" else "GET"
    if cell.kind == "LIST":
        targets = [target(server, "GET", "/listing", {"list-type": "2", "max-keys": "1000"})]
    else:
        targets = [target(server, method, key(cell.size, number)) for number in range(KEYS)]
    script, listing, payload = folder / "bench.lua", folder / f"{server.name}.targets", folder / "body"
    script.write_text(LUA)
    listing.write_text("\n".join(targets) + "\n")
    payload.write_bytes(os.urandom(cell.size))
    command = ["wrk", "-t1", f"-c{cell.connections}", f"-d{seconds}s", "--timeout", "30s", "-s", str(script)]
    command += [f"http://{server.host}", "--", str(listing), method, str(payload) if method == "PUT" else ""]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"RESULT (\d+) (\d+) ([\d.]+) ([\d.]+) (\d+) (\d+)", output)
    if found is None:
        raise NotMeasured(f"no result from wrk: {output[-300:]}")
    count, micros, p50, p99, bad, broken = (float(x) for x in found.groups())
    must(not bad and not broken, f"{bad:.0f} answers not 2xx, {broken:.0f} socket errors")
    return {"rate": count / micros * 1e6, "p50_us": p50, "p99_us": p99, "done": count}


def _big(server: Server, cell: Cell, _folder: Path, _seconds: int) -> dict[str, float]:
    """Eight transfers over the connections, each its own thread and socket."""
    method, each = cell.kind[:3], max(1, 8 // cell.connections)
    piece = memoryview(os.urandom(1 << 20))
    took: list[float] = []
    failures: list[str] = []

    def transfer(number: int) -> None:
        try:
            connection, where = Connection(server), target(server, method, f"/{BUCKET}/big{number}")
            for _ in range(each):
                start = time.perf_counter()
                connection.send(method, where, cell.size if method == "PUT" else 0, piece)
                status, _, size = connection.receive(keep=False)
                must(status == 200 and (method == "PUT" or size == cell.size), f"status {status}, {size} bytes")
                took.append(time.perf_counter() - start)
        except (OSError, NotMeasured) as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=transfer, args=(number,)) for number in range(cell.connections)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall = time.perf_counter() - start
    must(not failures, str(failures[:1]))
    took.sort()
    done = each * cell.connections
    p50, p99 = took[len(took) // 2] * 1e6, took[int(len(took) * 0.99)] * 1e6
    return {"rate": done * cell.size / 1e9 / wall, "p50_us": p50, "p99_us": p99, "done": done}


def flushes(server: Server, folder: Path) -> str:
    """Flush calls of the server's processes during 50 PUTs of 4 KiB, one after another: the proof of durability."""
    trace = folder / f"{server.name}.strace"
    calls = "fsync,fdatasync,sync_file_range,msync,syncfs,sync,pwritev2,openat,io_submit"
    command = ["strace", "-f", "-e", f"trace={calls}", "-o", str(trace)]
    command += [argument for pid in process_tree(server.process.pid) for argument in ("-p", str(pid))]
    try:
        tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        return "strace is not installed"
    time.sleep(2)
    connection, body = Connection(server), os.urandom(4096)
    for number in range(50):
        must(connection.call("PUT", f"/{BUCKET}/flush{number}", body)[0] == 200, "PUT failed under strace")
    tracer.terminate()
    tracer.wait()
    return f"{sum(map(_flushes_of, trace.read_text().splitlines()))} in 50 PUTs"


def _flushes_of(line: str) -> int:
    """Flushes that one traced call asks for: io_submit and pwritev2 name each, an O_SYNC open counts once."""
    if "resumed>" in line:
        return 0
    marked = len(re.findall(r"RWF_D?SYNC", line))
    return marked or bool(re.search(r" (fsync|fdatasync|sync_file_range|msync|syncfs|sync)\(|O_D?SYNC", line))


Measure = Callable[[Server, Cell, Path, int], dict[str, float]]
