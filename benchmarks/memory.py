"""`python -m benchmarks.memory`: resident memory of a worker under 64 concurrent uploads of 64 MiB."""

import contextlib
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.cells import BIG_BYTES, BUCKET
from benchmarks.servers import Server, process_tree, resident_bytes, running
from benchmarks.wire import Connection, NotMeasured, must, target

UPLOADS = 64


def upload(server: Server, number: int, piece: memoryview, failures: list[str]) -> None:
    try:
        connection = Connection(server)
        connection.send("PUT", target(server, "PUT", f"/{BUCKET}/memory{number}"), BIG_BYTES, piece)
        status, answer, _ = connection.receive(keep=True)
        must(status == 200, f"{status} {answer[:200]!r}")
    except (OSError, NotMeasured) as error:
        failures.append(repr(error))


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="isotherm-memory-"))
    failures: list[str] = []
    try:
        with running("isotherm", folder) as server:
            must(Connection(server).call("PUT", f"/{BUCKET}")[0] == 200, "create bucket")
            idle = resident_bytes(server.process.pid)
            piece = memoryview(os.urandom(1 << 20))
            threads = [threading.Thread(target=upload, args=(server, n, piece, failures)) for n in range(UPLOADS)]
            began = time.monotonic()
            for thread in threads:
                thread.start()
            peak = 0
            while any(thread.is_alive() for thread in threads):
                peak = max(peak, resident_bytes(server.process.pid))
                time.sleep(0.02)
            took = time.monotonic() - began
            must(not failures, str(failures[:2]))
            print(
                f"{UPLOADS} uploads of {BIG_BYTES >> 20} MiB in {took:.1f} s by {len(process_tree(server.process.pid))}"
                f" processes: greatest resident memory {peak >> 20} MiB, {idle >> 20} MiB before"
            )
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
