"""Repair of a striped blob: missing and bad fragments are decoded from k good ones and written anew, under their names.

Nothing enters a decode unverified. Only when fewer than k fragments are good from end to end is the whole blob written
anew, block by block from whatever is good, as the next generation: then nothing may be set aside beforehand.
"""

from collections.abc import Generator
from typing import Final

from tiers.datapath.attempts import reason_of
from tiers.datapath.files import open_fragment
from tiers.datapath.layouts import layout_of
from tiers.datapath.stripes import Stripe
from tiers.devices.contract import OpenFile
from tiers.erasure.codec import codec_for
from tiers.erasure.fragment import ChecksumTable, Identity, check_header, decode_header, decode_trailer
from tiers.erasure.layout import BLOCK_BYTES, PAGE_BYTES
from tiers.errors import ContentUnreadable, DeviceFailed, FragmentCorrupt, PlacementShort, StorageError
from tiers.upkeep.new_fragment import NewFragments
from tiers.upkeep.rebuilt import Patient, Rebuilt, Tools, Work

CORRUPT: Final = "corrupt"


class _Source:
    """One fragment that is read, its checksum table verified."""

    def __init__(self, device_id: str, file: OpenFile, table: ChecksumTable) -> None:
        self.device_id, self.file, self.table = device_id, file, table


class _SourceLost(Exception):
    """A fragment turned out bad while it was read; the rebuild begins again without it."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"fragment {index}: {reason}")
        self.index, self.reason = index, reason


class FragmentRepair:
    """One repair of one striped blob. `work` runs once, in a thread."""

    def __init__(self, tools: Tools, patient: Patient) -> None:
        self._calls, self._aims, self._patient = tools.calls, tools.aims, patient
        self._blob = patient.blob
        self._layout = layout_of(patient.blob.layout)
        self._codec = codec_for(self._layout)
        self._sources: dict[int, _Source] = {}
        self._bad: dict[int, str] = {}

    def work(self) -> Work:
        """Judge the queued fragments, rebuild the bad ones.

        Errors: ContentUnreadable, PlacementShort, DeviceFull, DeviceFailed; nothing was published then.
        """
        try:
            for index in sorted(self._patient.queued):
                reason = yield from self._judge(index)
                if reason:
                    self._bad[index] = reason
            good = set(self._patient.queued) - self._bad.keys()
            if self._bad:
                self._look_at_others()
            while self._bad:
                try:
                    rebuilt = yield from self._rebuild()
                except _SourceLost as lost:
                    self._patient.found[lost.index] = lost.reason
                    continue
                rebuilt.good |= good
                return rebuilt
            return Rebuilt(self._blob.generation, good)
        finally:
            self._close()

    def _judge(self, index: int) -> Generator[int, None, str]:
        """Read one fragment from end to end; why it is bad, or nothing."""
        row_bytes = self._layout.row_bytes_full
        memory = Stripe(row_bytes)
        try:
            source = self._open(index)
            head = memory.view[:PAGE_BYTES]
            self._read(source, 0, head)
            self._check_header(index, source, head)
            for stripe in range(self._layout.stripes(self._blob.size)):
                view = memory.view[: self._layout.stripe_row_length(self._blob.size, stripe)]
                self._read(source, self._layout.row_offset(stripe), view)
                source.table.verify(stripe, 0, view)
                yield len(view)
        except StorageError as error:
            return reason_of(error)
        return ""

    def _look_at_others(self) -> None:
        """Open the fragments that nobody reported: reads ask for parity only when they must."""
        for index in range(self._layout.fragments):
            if index not in self._patient.queued and index not in self._patient.found:
                try:
                    self._open(index)
                except StorageError as error:
                    self._patient.found[index] = reason_of(error)

    def _check_header(self, index: int, source: _Source, head: memoryview) -> None:
        tail = memoryview(bytearray(PAGE_BYTES))
        self._read(source, source.file.size - PAGE_BYTES, tail)
        trailer = decode_trailer(tail, file_size=source.file.size, expected=self._identity(index))
        check_header(decode_header(head, self._identity(index)), trailer)

    def _rebuild(self) -> Work:
        """New files for the bad fragments, or for all of them. Errors: _SourceLost besides."""
        count, data = self._layout.fragments, self._layout.data_fragments
        healthy = [i for i in range(count) if i not in self._bad and i not in self._patient.found]
        is_mixed = len(healthy) < data
        if is_mixed:
            self._require_sources()
        aims = self._aims.choose(self._blob, range(count) if is_mixed else sorted(self._bad), self._patient.refused)
        if len(aims) < (self._layout.write_quorum if is_mixed else 1):
            raise PlacementShort(f"no device takes fragments {sorted(self._bad)}")
        generation = self._blob.generation + is_mixed
        quorum = self._layout.write_quorum if is_mixed else 1
        targets = NewFragments(self._calls, self._blob, generation, aims, quorum=quorum, refused=self._patient.refused)
        sources = sorted(self._sources) if is_mixed else self._open_all(healthy[:data])
        try:
            targets.stage()
            yield from self._fill(targets, sources, is_mixed=is_mixed)
            targets.finish()
        except BaseException:
            targets.withdraw()
            raise
        return Rebuilt(generation, set(), targets)

    def _fill(self, targets: NewFragments, sources: list[int], *, is_mixed: bool) -> Generator[int, None, None]:
        """Stripe by stripe: read, verify, decode, write."""
        count, size = self._layout.fragments, self._blob.size
        memory = Stripe(self._layout.row_bytes_full * count)
        for stripe in range(self._layout.stripes(size)):
            length = self._layout.stripe_row_length(size, stripe)
            rows = memory.rows(length, count)
            self._read_rows(stripe, sources, rows)
            if is_mixed:
                self._mend_rows(stripe, sources, rows)
            else:
                self._verify_rows(stripe, sources, rows)
                lost = sorted(targets.fragments)
                self._codec.decode({i: rows[i] for i in sources}, lost, [rows[i] for i in lost])
            targets.write(stripe, rows)
            yield length * (len(sources) + len(targets.fragments))

    def _read_rows(self, stripe: int, sources: list[int], rows: list[memoryview]) -> None:
        """One row of each source, all devices at once. Errors: _SourceLost."""
        offset = self._layout.row_offset(stripe)
        asked = [(index, self._sources[index]) for index in sources]
        started = [self._calls.start(one.device_id, one.file.read_into, offset, rows[index]) for index, one in asked]
        for (index, source), future in zip(asked, started, strict=True):
            try:
                count = self._calls.finish(source.device_id, future)
                if count != len(rows[index]):
                    raise DeviceFailed(f"{source.device_id} read {count} of {len(rows[index])} bytes")
            except StorageError as error:
                del self._sources[index]  # its file is left to the thread that may still read it
                raise _SourceLost(index, reason_of(error)) from error

    def _verify_rows(self, stripe: int, sources: list[int], rows: list[memoryview]) -> None:
        for index in sources:
            try:
                self._sources[index].table.verify(stripe, 0, rows[index])
            except FragmentCorrupt as error:
                raise _SourceLost(index, CORRUPT) from error

    def _mend_rows(self, stripe: int, sources: list[int], rows: list[memoryview]) -> None:
        """Make every row right from the good blocks of all of them. Errors: ContentUnreadable."""
        length = len(rows[0])
        for first in range(0, length, BLOCK_BYTES):
            blocks = [row[first : first + BLOCK_BYTES] for row in rows]
            good = {i: blocks[i] for i in sources if self._is_good(i, stripe, first // BLOCK_BYTES, blocks[i])}
            if len(good) < self._layout.data_fragments:
                raise self._unreadable(f"stripe {stripe}: {len(good)} good fragments")
            lost = [index for index in range(len(rows)) if index not in good]
            self._codec.decode(good, lost, [blocks[index] for index in lost])

    def _is_good(self, index: int, stripe: int, block: int, view: memoryview) -> bool:
        try:
            self._sources[index].table.verify(stripe, block, view)
        except FragmentCorrupt as error:
            self._patient.found.setdefault(index, reason_of(error))
            return False
        return True

    def _require_sources(self) -> None:
        """Open everything that can be opened, good or bad. Errors: ContentUnreadable."""
        for index in range(self._layout.fragments):
            if self._patient.found.get(index, self._bad.get(index, CORRUPT)) == CORRUPT:
                try:
                    self._open(index)
                except StorageError as error:
                    self._patient.found.setdefault(index, reason_of(error))
        if len(self._sources) < self._layout.data_fragments:
            raise self._unreadable(f"{len(self._sources)} fragments left")

    def _unreadable(self, text: str) -> ContentUnreadable:
        return ContentUnreadable(f"blob {self._blob.blob_id.hex()}, {text}, {self._layout.data_fragments} needed")

    def _open_all(self, indexes: list[int]) -> list[int]:
        for index in indexes:
            try:
                self._open(index)
            except StorageError as error:
                raise _SourceLost(index, reason_of(error)) from error
        return indexes

    def _open(self, index: int) -> _Source:
        source = self._sources.get(index)
        if source is None:
            device_id = self._patient.device_of(index)
            if not self._calls.is_usable(device_id):
                raise DeviceFailed(f"device {device_id!r} is not available")
            device, size = self._calls.device(device_id), self._blob.size
            file, table, _ = self._calls.call(device_id, open_fragment, device, self._identity(index), size)
            assert table is not None
            source = self._sources[index] = _Source(device_id, file, table)
        return source

    def _read(self, source: _Source, offset: int, view: memoryview) -> None:
        count = self._calls.call(source.device_id, source.file.read_into, offset, view)
        if count != len(view):
            raise FragmentCorrupt(f"ends after {count} of {len(view)} bytes at {offset}")

    def _identity(self, index: int) -> Identity:
        return Identity(self._blob.blob_id, self._layout, index, self._blob.generation)

    def _close(self) -> None:
        while self._sources:
            source = self._sources.popitem()[1]
            self._calls.start(source.device_id, source.file.close)
