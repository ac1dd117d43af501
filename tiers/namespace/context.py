"""What every service of the namespace is built from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from metadata.contract import Reader as MetadataReader
from metadata.types import Bucket
from tiers.catalogue import Catalogue
from tiers.commit.contract import Committer
from tiers.datapath.contract import Reader, Writer
from tiers.namespace.bucket_rules import RulesOfBuckets
from tiers.namespace.revised import Revised


class Limits(NamedTuple):
    """Sizes at which S3's rules change, in bytes; tests use smaller ones.

    `part_bytes_min` is the least size of every part but the last. A multipart source above `copy_read_bytes_max` keeps
    its ETag when copied; a smaller one is read once for a plain one.
    """

    part_bytes_min: int = 5 * 1024**2
    copy_read_bytes_max: int = 5 * 1024**3


S3_LIMITS = Limits()

RECENT_BUCKETS_MAX = 4096
"""Rows of about 300 bytes."""


@dataclass(slots=True)
class Context:
    """The collaborators of one process's namespace; no state of a request. Only `catalogue` is ever replaced.

    `recent_buckets` remembers the rows of buckets by name, as a hint for prefetching. It is never believed: every
    mutation reads the bucket's row in its own transaction. `documents` keeps the documents of buckets by revision;
    `rules`, for the commit thread alone, what mutations make of some of them.
    """

    reader: MetadataReader
    committer: Committer
    writer: Writer
    contents: Reader
    catalogue: Catalogue
    clock: Callable[[], float]
    new_id: Callable[[], bytes]
    limits: Limits
    rules: RulesOfBuckets
    recent_buckets: dict[str, Bucket] = field(default_factory=dict)
    documents: Revised[Mapping[str, bytes]] = field(default_factory=Revised)

    def remember_bucket(self, bucket: Bucket) -> None:
        """Keep a row just read; the memory is emptied when it is full."""
        if len(self.recent_buckets) >= RECENT_BUCKETS_MAX:
            self.recent_buckets.clear()
        self.recent_buckets[bucket.name] = bucket

    def forget_bucket(self, name: str) -> None:
        """A row turned out to be out of date."""
        self.recent_buckets.pop(name, None)

    def new_version_id(self) -> str:
        """An unguessable id, never reused."""
        return self.new_id().hex()
