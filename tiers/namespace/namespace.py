"""The waist: the only door through which handlers reach metadata and bytes together."""

from collections.abc import Callable

from metadata.contract import Reader as MetadataReader
from tiers.catalogue import Catalogue
from tiers.commit.contract import Committer
from tiers.datapath.contract import Reader, Writer
from tiers.namespace.bucket_rules import RulesOfBuckets
from tiers.namespace.buckets import Buckets
from tiers.namespace.context import S3_LIMITS, Context, Limits
from tiers.namespace.due_times import DueTimes
from tiers.namespace.listing import Listing
from tiers.namespace.multipart import Multipart
from tiers.namespace.objects import Objects
from tiers.namespace.principals import Principals
from tiers.namespace.schedules import Compile


class Namespace:
    """The services of one process, sharing one reader and one committer; used on one event loop.

    `catalogue` is replaced when the topology changes. `new_id` gives 16 random bytes. `limits` are S3's unless
    a test says otherwise. `compile_schedule` makes lifecycle rules of their document.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # joined in one place, by the composition root
        self,
        reader: MetadataReader,
        committer: Committer,
        writer: Writer,
        contents: Reader,
        catalogue: Catalogue,
        clock: Callable[[], float],
        new_id: Callable[[], bytes],
        *,
        compile_schedule: Compile,
        limits: Limits = S3_LIMITS,
    ) -> None:
        rules = RulesOfBuckets(compile_schedule)
        self._context = Context(reader, committer, writer, contents, catalogue, clock, new_id, limits, rules)
        self.buckets = Buckets(self._context)
        self.objects = Objects(self._context)
        self.listing = Listing(self._context)
        self.multipart = Multipart(self._context)
        self.principals = Principals(self._context)
        self.due_times = DueTimes(self._context)

    def storage_classes(self) -> frozenset[str]:
        """Every word that names a storage class now."""
        return self._context.catalogue.storage_classes()

    def new_id_text(self) -> str:
        """A fresh unguessable id, for what a request has to name."""
        return self._context.new_id().hex()

    @property
    def events_dropped(self) -> int:
        """Events that the outbox had no room for, since this namespace was made."""
        return self._context.rules.events_dropped

    def use_catalogue(self, catalogue: Catalogue) -> None:
        """Serve requests that begin from now on by another topology."""
        self._context.catalogue = catalogue
