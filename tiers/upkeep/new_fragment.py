"""Fragments being written anew on their devices: staged, filled row by row, flushed, published. Blocking calls."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from metadata.types import Blob
from tiers.datapath.layouts import layout_of
from tiers.datapath.stripes import Stripe
from tiers.devices.contract import Area, Device, StagedFile
from tiers.erasure.fragment import Identity, encode_header, encode_tail, row_checksums
from tiers.erasure.layout import PAGE_BYTES
from tiers.errors import QuorumNotReached, StorageError
from tiers.upkeep.device_calls import DeviceCalls

logger = logging.getLogger(__name__)


class NewFragment:
    """One of them. `failure` is set by the first call that failed; the fragment is dead then."""

    def __init__(self, identity: Identity, device_id: str) -> None:
        self.identity, self.device_id = identity, device_id
        self.staged: StagedFile | None = None
        self.is_published = False
        self.failure: StorageError | None = None
        self.checksums: list[bytes] = []

    def begin(self, device: Device, size_hint: int) -> None:
        """Stage it; what an earlier try left under the name goes first."""
        device.delete(Area.STAGING, self.identity.name)
        self.staged = device.stage(self.identity.name, size_hint)

    def end(self, size: int) -> None:
        """Write header, table and trailer, and flush."""
        assert self.staged is not None
        layout = self.identity.layout
        memory = Stripe(PAGE_BYTES + layout.fragment_bytes(size) - layout.table_offset(size))
        head, tail = memory.view[:PAGE_BYTES], memory.view[PAGE_BYTES:]
        head[:] = encode_header(self.identity, size)
        tail[:] = encode_tail(self.identity, size, b"".join(self.checksums))
        self.staged.write(0, head)
        self.staged.write(layout.table_offset(size), tail)
        self.staged.flush()

    def show(self, device: Device) -> None:
        """Set aside what bears the name, and publish."""
        assert self.staged is not None
        device.quarantine(Area.FRAGMENTS, self.identity.name, "replaced by repair")
        self.staged.publish()
        self.is_published = True

    def remove(self, device: Device) -> None:
        """Take it back, published or not."""
        staged, self.staged = self.staged, None
        if self.is_published:
            device.delete(Area.FRAGMENTS, self.identity.name)
        elif staged is not None:
            staged.discard()


class NewFragments:
    """Those of one blob, by index. A device that fails drops out as long as `quorum` of them are left."""

    def __init__(
        self,
        calls: DeviceCalls,
        blob: Blob,
        generation: int,
        aims: Mapping[int, str],
        *,
        quorum: int,
        refused: set[str],
    ) -> None:
        self._calls, self._blob, self._quorum, self._refused = calls, blob, quorum, refused
        self._layout = layout_of(blob.layout)
        self.fragments = {
            index: NewFragment(Identity(blob.blob_id, self._layout, index, generation), device_id)
            for index, device_id in sorted(aims.items())
        }

    def devices(self) -> dict[int, str]:
        """The device of each fragment that has not failed."""
        return {one.identity.index: one.device_id for one in self._live()}

    def stage(self) -> None:
        """Begin them. Errors: the last failure, when too few are left; so for all that follow."""
        hint = self._layout.fragment_bytes(self._blob.size)
        self._on_devices(lambda one: one.begin(self._calls.device(one.device_id), hint))

    def write(self, stripe: int, rows: Sequence[memoryview]) -> None:
        """Write the row of each. The memory is in use until this returns, or for longer by a device that failed."""
        offset = self._layout.row_offset(stripe)

        def put(one: NewFragment) -> None:
            assert one.staged is not None
            one.staged.write(offset, rows[one.identity.index])

        for one in self._live():
            one.checksums.append(row_checksums(one.identity, stripe, rows[one.identity.index]))
        self._on_devices(put)

    def finish(self) -> None:
        """Write what follows the rows, and flush."""
        self._on_devices(lambda one: one.end(self._blob.size))

    def publish(self) -> None:
        """Make them visible, one after the other: what is set aside for one is back before the next is touched."""
        for one in self._live():
            self._run([one], lambda fragment: fragment.show(self._calls.device(fragment.device_id)))
        self._remove([one for one in self.fragments.values() if one.failure is not None])
        try:
            self._require()
        except StorageError:
            self.withdraw()
            raise

    def withdraw(self, placed: Collection[tuple[str, str]] = ()) -> None:
        """See `NewFiles`; what a failing device keeps is reclaim's to find."""
        self._remove(
            one
            for one in self.fragments.values()
            if not (one.is_published and (one.device_id, one.identity.name) in placed)
        )

    def _remove(self, chosen: Iterable[NewFragment]) -> None:
        for one in chosen:
            if one.staged is None or not self._calls.is_usable(one.device_id):
                continue
            try:
                self._calls.call(one.device_id, one.remove, self._calls.device(one.device_id))
            except StorageError as error:
                logger.warning("fragment %s stays on %s: %s", one.identity.name, one.device_id, error)

    def _live(self) -> list[NewFragment]:
        return [one for one in self.fragments.values() if one.failure is None]

    def _on_devices(self, work: Callable[[NewFragment], None]) -> None:
        self._run(self._live(), work)
        self._require()

    def _run(self, chosen: Sequence[NewFragment], work: Callable[[NewFragment], None]) -> None:
        started = [(one, self._calls.start(one.device_id, work, one)) for one in chosen]
        for one, future in started:
            try:
                self._calls.finish(one.device_id, future)
            except StorageError as error:
                logger.warning("device %s takes no fragment of repair: %s", one.device_id, error)
                one.failure = error
                self._refused.add(one.device_id)

    def _require(self) -> None:
        live = self._live()
        if len(live) >= self._quorum:
            return
        failure = next(one.failure for one in self.fragments.values() if one.failure is not None)
        if self._quorum == 1:
            raise failure
        raise QuorumNotReached(f"{len(live)} new fragments, {self._quorum} needed") from failure
