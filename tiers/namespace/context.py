"""What every service of the namespace is built from."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from metadata.contract import Reader as MetadataReader
from tiers.catalogue import Catalogue
from tiers.commit.contract import Committer
from tiers.datapath.contract import Reader, Writer


class Limits(NamedTuple):
    """Sizes at which S3's rules change, in bytes; tests use smaller ones.

    `part_bytes_min` is the least size of every part but the last. A multipart source above `copy_read_bytes_max` keeps
    its ETag when copied; a smaller one is read once for a plain one.
    """

    part_bytes_min: int = 5 * 1024**2
    copy_read_bytes_max: int = 5 * 1024**3


S3_LIMITS = Limits()


@dataclass(slots=True)
class Context:
    """The collaborators of one process's namespace; no state of a request. Only `catalogue` is ever replaced.

    `bucket_ids` remembers bucket ids by name as a hint for prefetching rows. It is never believed: every mutation reads
    the bucket's row in its own transaction.
    """

    reader: MetadataReader
    committer: Committer
    writer: Writer
    contents: Reader
    catalogue: Catalogue
    clock: Callable[[], float]
    new_id: Callable[[], bytes]
    limits: Limits
    bucket_ids: dict[str, int] = field(default_factory=dict)

    def new_version_id(self) -> str:
        """An unguessable id, never reused."""
        return self.new_id().hex()
