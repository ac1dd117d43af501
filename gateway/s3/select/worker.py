"""The process that runs one query: job and object on standard input, frames on standard output, limits on itself."""

import json
import resource
import sys
from typing import BinaryIO, Final

from gateway.s3.select.evaluation import Evaluation
from gateway.s3.select.framing import Statistics
from gateway.s3.select.job import DONE, FAILED, FRAME, FRAME_BYTES_MAX, PROGRESS, RECORDS, unpack_job
from gateway.s3.select.reading import Blocks
from gateway.s3.select.refusals import SelectRefused

ADDRESS_BYTES_MAX: Final = 3 << 30
CPU_SECONDS_MAX: Final = 120
FILE_BYTES_MAX: Final = (1 << 30) + (1 << 20)
_LIMITS: Final = {
    resource.RLIMIT_AS: ADDRESS_BYTES_MAX,
    resource.RLIMIT_CPU: CPU_SECONDS_MAX,
    resource.RLIMIT_FSIZE: FILE_BYTES_MAX,
    resource.RLIMIT_CORE: 0,
}


class _Frames:
    """Writes frames, and counts the bytes of records."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.returned = 0

    def send(self, kind: bytes, payload: bytes) -> None:
        self._out.write(FRAME.pack(kind, len(payload)) + payload)
        self._out.flush()

    def emit(self, text: str) -> None:
        payload = text.encode()
        self.returned += len(payload)
        for at in range(0, len(payload), FRAME_BYTES_MAX):
            self.send(RECORDS, payload[at : at + FRAME_BYTES_MAX])


def run(source: BinaryIO, out: BinaryIO) -> None:
    """Serve one job. What is wrong becomes the last frame; a fault of ours is told by its type alone."""
    job = unpack_job(source.readline())
    blocks = Blocks(source.read, job.input.compression)
    frames = _Frames(out)

    def told() -> bytes:
        return json.dumps(Statistics(blocks.scanned, blocks.processed, frames.returned)).encode()

    try:
        Evaluation(job, blocks, frames.emit, lambda: frames.send(PROGRESS, told())).run()
    except SelectRefused as error:
        frames.send(FAILED, json.dumps([error.code, error.message]).encode())
    except MemoryError:
        text = "The query needs more memory than it may have."
        frames.send(FAILED, json.dumps(["OverMaxRecordSize", text]).encode())
    else:
        frames.send(DONE, told())


def main() -> None:
    """Set the limits and serve."""
    for limit, value in _LIMITS.items():
        resource.setrlimit(limit, (value, value))
    run(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
