"""Values made of a bucket's configuration, kept as long as the configuration stays."""

from typing import Final, Generic, TypeVar

from metadata.types import Bucket

Value = TypeVar("Value")

COUNT_MAX: Final = 1024
BYTES_MAX: Final = 64 << 20
ENTRY_BYTES: Final = 512
"""What an entry costs besides its value, about."""


class Revised(Generic[Value]):
    """One value a bucket, valid for one revision of it; the oldest are dropped beyond `count_max` or `bytes_max`.

    A row read from the database decides which revision is asked for, so no process has to be told of a change.
    """

    def __init__(self, *, count_max: int = COUNT_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._entries: dict[int, tuple[int, Value, int]] = {}
        self._count_max, self._bytes_max = count_max, bytes_max
        self.byte_count = 0

    def find(self, bucket: Bucket) -> Value | None:
        """The value made for this revision of the bucket, if it is still kept."""
        entry = self._entries.get(bucket.bucket_id)
        return entry[1] if entry is not None and entry[0] == bucket.revision else None

    def keep(self, bucket: Bucket, value: Value, byte_count: int) -> None:
        """Keep a value of about so many bytes, unless one of a later revision is kept or it is too large."""
        kept = self._entries.get(bucket.bucket_id)
        if kept is not None:
            if kept[0] > bucket.revision:
                return
            self._drop(bucket.bucket_id)
        byte_count += ENTRY_BYTES
        if byte_count > self._bytes_max:
            return
        while self._entries and (
            len(self._entries) >= self._count_max or self.byte_count + byte_count > self._bytes_max
        ):
            self._drop(next(iter(self._entries)))
        self._entries[bucket.bucket_id] = bucket.revision, value, byte_count
        self.byte_count += byte_count

    def _drop(self, bucket_id: int) -> None:
        self.byte_count -= self._entries.pop(bucket_id)[2]
