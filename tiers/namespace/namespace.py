"""The waist: the only door through which handlers reach metadata and bytes together."""

from collections.abc import Callable

from metadata.contract import Reader as MetadataReader
from tiers.catalogue import Catalogue
from tiers.commit.contract import Committer
from tiers.datapath.contract import Reader, Writer
from tiers.namespace.buckets import Buckets
from tiers.namespace.context import S3_LIMITS, Context, Limits
from tiers.namespace.listing import Listing
from tiers.namespace.multipart import Multipart
from tiers.namespace.objects import Objects


class Namespace:
    """The services of one process, sharing one reader and one committer; used on one event loop.

    `catalogue` is replaced when the topology changes. `new_id` gives 16 random bytes. `limits` are S3's unless
    a test says otherwise.
    """

    def __init__(  # noqa: PLR0917  # joined in one place, by the composition root
        self,
        reader: MetadataReader,
        committer: Committer,
        writer: Writer,
        contents: Reader,
        catalogue: Catalogue,
        clock: Callable[[], float],
        new_id: Callable[[], bytes],
        *,
        limits: Limits = S3_LIMITS,
    ) -> None:
        self._context = Context(reader, committer, writer, contents, catalogue, clock, new_id, limits)
        self.buckets = Buckets(self._context)
        self.objects = Objects(self._context)
        self.listing = Listing(self._context)
        self.multipart = Multipart(self._context)

    def use_catalogue(self, catalogue: Catalogue) -> None:
        """Serve requests that begin from now on by another topology."""
        self._context.catalogue = catalogue
