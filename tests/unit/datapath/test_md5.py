"""Differential test of the MD5 kernel against hashlib (performance.md PF-42), every width this CPU has.

Also: one wrong rotation, planted in the source, must be convicted by the self-check.
"""

import hashlib
import logging
import mmap
import os
import random
import shutil
import subprocess
import sysconfig
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tiers.datapath import md5
from tiers.datapath.md5 import ALONE_MAX, HashlibStream, Kernel, LaneStream, Md5Lanes, Md5Stream

SOURCE = Path(md5.__file__).with_name("_md5.c")
BORDERS = [0, 1, 54, 55, 56, 57, 63, 64, 65, 118, 119, 120, 127, 128, 129, 4095, 4096, 65536, 131072]


def expected(message: bytes) -> bytes:
    return hashlib.md5(message, usedforsecurity=False).digest()


def build(folder: Path, source: str) -> Path:
    """Compile the extension as the package build does, without its flags."""
    compiler = os.environ.get("CC") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the product uses hashlib")
    library, text = folder / "_md5.so", folder / "_md5.c"
    text.write_text(source)
    headers = sysconfig.get_paths()["include"]
    warnings = ["-Wall", "-Wextra", "-Werror"]
    command = [compiler, "-O1", *warnings, "-shared", "-fPIC", f"-I{headers}", "-o", str(library), str(text)]
    subprocess.run(command, check=True)
    return library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("md5"), SOURCE.read_text())


@pytest.fixture(params=md5.WIDTHS)
def kernel(request: pytest.FixtureRequest, library: Path) -> Kernel:
    if Kernel(library).lanes < request.param:
        pytest.skip(f"this CPU has no kernel of {request.param} lanes")
    return Kernel(library, request.param)


def test_whole_messages_of_every_batch_width(kernel: Kernel) -> None:
    rng = random.Random(1)
    batches = [[rng.randbytes(size) for size in BORDERS]]
    for width in range(1, 3 * kernel.lanes + 1):
        batches.append([rng.randbytes(rng.randrange(400)) for _ in range(width)])
        batches.append([rng.randbytes(rng.choice(BORDERS)) for _ in range(width)])
    for batch in batches:
        assert kernel.many(batch) == [expected(message) for message in batch], [len(message) for message in batch]


def test_running_hashes_from_unaligned_addresses(kernel: Kernel) -> None:
    rng = random.Random(2)
    bodies = [rng.randbytes(64 * 37 + lane) for lane in range(kernel.lanes)]
    streams = [LaneStream(Md5Lanes(kernel), kernel) for _ in bodies]
    for lane, (stream, body) in enumerate(zip(streams, bodies, strict=True)):
        area = bytearray(lane) + body
        assert stream.finish_inline(memoryview(area)[lane:]) == expected(body)


def pieces(body: bytes, rng: random.Random) -> list[memoryview]:
    """Uneven pieces, some empty, some read-only, some in page-aligned memory."""
    cut: list[memoryview] = []
    at = 0
    while at < len(body):
        size = rng.choice([0, 1, 63, 64, 65, 100, 4096, 50_000])
        piece = body[at : at + size]
        at += len(piece)
        kind = rng.randrange(3)
        if kind == 0 and piece:
            area = mmap.mmap(-1, len(piece))
            area[:] = piece
            cut.append(memoryview(area))
        else:
            cut.append(memoryview(piece if kind == 1 else bytearray(piece)))
    return cut


def feed(stream: Md5Stream, views: list[memoryview], *, chained: bool, ended: Callable[[], None]) -> None:
    """Feed a stream: blocking, or each piece from the callback of the one before."""
    if not chained:
        for view in views:
            stream.update(view)
        ended()
        return
    waiting = iter(views)

    def step() -> None:
        view = next(waiting, None)
        if view is None:
            ended()
        else:
            stream.submit(view, step)

    step()


def test_uploads_in_flight_share_the_kernel(kernel: Kernel) -> None:
    """More streams than lanes, of very different lengths, half of them driven by callbacks."""
    rng = random.Random(3)
    lanes = Md5Lanes(kernel)
    bodies = [rng.randbytes(rng.choice([*BORDERS, 300_000])) for _ in range(2 * kernel.lanes + 3)]
    streams = [lanes.open_stream() for _ in bodies]
    assert [type(stream) for stream in streams[: ALONE_MAX + 1]] == [HashlibStream] * ALONE_MAX + [LaneStream]
    landed = [threading.Event() for _ in bodies]
    threads = [
        threading.Thread(
            target=feed,
            args=(stream, pieces(body, rng)),
            kwargs={"chained": bool(number % 2) and isinstance(stream, LaneStream), "ended": landed[number].set},
        )
        for number, (stream, body) in enumerate(zip(streams, bodies, strict=True))
    ]
    for thread in threads:
        thread.start()
    for event in landed:
        assert event.wait(30)
    for thread in threads:
        thread.join()
    assert [stream.digest() for stream in streams] == [expected(body) for body in bodies]
    assert [stream.digest() for stream in streams] == [expected(body) for body in bodies]
    lanes.close()
    lanes.close()


def test_streams_that_ended_make_room_for_hashlib_again(kernel: Kernel) -> None:
    lanes = Md5Lanes(kernel)
    streams = [lanes.open_stream() for _ in range(3)]
    for stream in streams:
        stream.close()
        stream.close()
    assert isinstance(lanes.open_stream(), HashlibStream)
    lanes.close()


def test_without_a_kernel_everything_is_hashlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert md5.load(tmp_path) is None
    monkeypatch.setattr(md5, "installed", lambda: None)
    batch = [bytes([number]) * number for number in range(20)]
    assert md5.many(batch) == [expected(message) for message in batch]
    assert md5.describe() == "hashlib"
    lanes = Md5Lanes(None)
    streams = [lanes.open_stream() for _ in range(5)]
    assert all(isinstance(stream, HashlibStream) for stream in streams)


def test_many_takes_the_kernel_from_a_few_messages_on(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = md5.load(library.parent)
    if loaded is None:
        pytest.skip("this CPU has no kernel")
    seen: list[int] = []
    real = loaded.many

    def counted(batch: list[bytes]) -> list[bytes]:
        seen.append(len(batch))
        return real(batch)

    monkeypatch.setattr(loaded, "many", counted)
    monkeypatch.setattr(md5, "installed", lambda: loaded)
    for count in (0, 1, 2, 3, 4, 40):
        assert md5.many([b"x"] * count) == [expected(b"x")] * count
    assert seen == [count for count in (3, 4, 40) if count >= loaded.batch_min]
    assert md5.describe() == f"{loaded.lanes} lanes"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("S(F, 1,0xe8c7b756u,12)", "S(F, 1,0xe8c7b756u,13)"),
        ("job->tail_blocks = rest < 56", "job->tail_blocks = rest < 57"),
    ],
    ids=["rotation", "padding"],
)
def test_a_wrong_kernel_is_switched_off_loudly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, right: str, wrong: str
) -> None:
    source = SOURCE.read_text()
    assert right in source
    broken = build(tmp_path, source.replace(right, wrong))
    if not Kernel(broken).lanes:
        pytest.skip("this CPU has no kernel")
    with caplog.at_level(logging.WARNING):
        assert md5.load(tmp_path) is None
    assert "switched off" in caplog.text


def test_a_file_that_is_no_library_is_passed_over_loudly(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "_md5.so").write_bytes(b"not a library")
    with caplog.at_level(logging.WARNING):
        assert md5.load(tmp_path) is None
    assert "cannot be loaded" in caplog.text
