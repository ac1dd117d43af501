"""Inventory reports as AWS lays them out: data files, a symlink for Hive, a manifest, and the manifest's MD5 last.

A report is written for the owner of the bucket that it is about, and owned by the owner of the bucket that it goes to.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from gateway.auth.keyring import ANONYMOUS, Principal
from gateway.auth.service_access import Delivery, Source, may_report
from gateway.s3 import inventory, xml
from gateway.s3.deposits import FINAL, Deposits, HeldBody
from gateway.s3.encryption import SSE_S3, Wish
from gateway.s3.errors import S3Error
from gateway.s3.inventory import Inventory
from gateway.s3.inventory_columns import Column, Facts, columns_of
from gateway.s3.inventory_files import FORMATS, DataEncoder, Format
from metadata.types import Bucket, Version
from tiers.datapath.body import Body
from tiers.upkeep.inventory import DataFile, ReportRefused

MANIFEST_VERSION: Final = "2016-11-30"
_CONTENT_TYPES: Final = {"manifest.json": "application/json"}
_PLAIN: Final = "text/plain"


@dataclass(frozen=True, slots=True)
class Reporting:
    """What writing reports takes. `region` and `day_ms` (of a lifecycle day) are the store's."""

    deposits: Deposits
    region: str
    clock: Callable[[], float]
    day_ms: int

    async def read(self, bucket: Bucket, kind: str, document: bytes) -> "InventoryReport":
        """See `tiers.upkeep.inventory.Reports`."""
        try:
            root = xml.read(xml.document("InventoryConfiguration", document.decode()), inventory.ROOTS)
            asked = inventory.parse(root)
        except S3Error as error:
            raise ReportRefused(f"its configuration cannot be read: {error}") from error
        chosen = FORMATS[asked.report_format]
        if not chosen.is_served:
            raise ReportRefused(f"{asked.report_format} needs {chosen.module}, which is not installed")
        configuration = await self.deposits.configuration(bucket)
        facts = Facts(bucket.name, bucket.owner_id, configuration.ownership, configuration.lifecycle, self.day_ms)
        return InventoryReport(self, bucket, kind, asked, chosen, columns_of(asked), facts)

    async def may_write(self, source: Bucket, target: Bucket, key: str, owner: Principal) -> bool:
        """Whether a report about `source` may be written into `target`, `owner` standing for the source's owner."""
        rules = (await self.deposits.configuration(target)).access(target.owner_id)
        asked = Source(source.name, source.owner_id)
        delivery = Delivery(asked, target.owner_id, (f"{target.name}/{key}",), self.region, self.clock())
        return may_report(rules, delivery, owner)

    async def owner_of(self, bucket: Bucket) -> Principal:
        """A bucket's owner as one who may do something: nobody once disabled or gone."""
        row = await self.deposits.namespace.principals.get(bucket.owner_id)
        return ANONYMOUS if row is None or not row.state else Principal(row.principal_id, row.name)


def folder_of(asked: Inventory, bucket_name: str) -> str:
    """Where the reports of a configuration go, with a slash at its end."""
    prefix = asked.target_prefix
    separator = "/" if prefix and not prefix.endswith("/") else ""
    return f"{prefix}{separator}{bucket_name}/{asked.inventory_id}/"


@dataclass(frozen=True, slots=True)
class InventoryReport:
    """Satisfies `tiers.upkeep.inventory.Report`."""

    reporting: Reporting
    bucket: Bucket
    kind: str
    asked: Inventory
    format: Format
    columns: Sequence[Column]
    facts: Facts

    @property
    def is_enabled(self) -> bool:
        return self.asked.is_enabled

    @property
    def is_weekly(self) -> bool:
        return self.asked.is_weekly

    @property
    def prefix(self) -> bytes:
        return self.asked.prefix.encode()

    @property
    def with_all_versions(self) -> bool:
        return self.asked.with_all_versions

    @property
    def needs_whole_rows(self) -> bool:
        return any(column.needs_whole_row for column in self.columns)

    @property
    def _folder(self) -> str:
        return folder_of(self.asked, self.bucket.name)

    def data_key(self, started_ms: int, index: int) -> str:
        """See `Report.data_key`."""
        named = f"{self.bucket.bucket_id}/{self.kind}/{started_ms}/{index}".encode()
        unique = UUID(bytes=hashlib.blake2b(named, digest_size=16).digest())
        return f"{self._folder}data/{unique}.{self.format.suffix}"

    def encoder(self) -> DataEncoder:
        """See `Report.encoder`."""
        return self.format.encoder(self.columns, self.facts)

    def closing(self, started_ms: int, files: Sequence[DataFile]) -> Iterator[tuple[str, bytes]]:
        """See `Report.closing`."""
        when = datetime.fromtimestamp(started_ms / 1000, UTC)
        links = "\n".join(f"s3://{self.asked.target_bucket}/{file.key}" for file in files)
        yield f"{self._folder}hive/dt={when:%Y-%m-%d-%H-%M}/symlink.txt", links.encode()
        manifest = self._manifest(started_ms, files)
        yield f"{self._folder}{when:%Y-%m-%dT%H-%MZ}/manifest.json", manifest
        checksum = hashlib.md5(manifest, usedforsecurity=False).hexdigest()
        yield f"{self._folder}{when:%Y-%m-%dT%H-%MZ}/manifest.checksum", checksum.encode()

    def _manifest(self, started_ms: int, files: Sequence[DataFile]) -> bytes:
        told = {
            "sourceBucket": self.bucket.name,
            "destinationBucket": f"arn:aws:s3:::{self.asked.target_bucket}",
            "version": MANIFEST_VERSION,
            "creationTimestamp": str(started_ms),
            "fileFormat": self.asked.report_format,
            "fileSchema": self.format.schema(self.columns),
            "files": [{"key": file.key, "size": file.size, "MD5checksum": file.md5} for file in files],
        }
        return json.dumps(told, indent=2).encode()

    async def deposit(self, key: str, body: Body) -> Version:
        """See `Report.deposit`."""
        return await self._deposit(key, body, self.format.content_type)

    async def deposit_bytes(self, key: str, content: bytes) -> None:
        """See `Report.deposit_bytes`."""
        await self._deposit(key, HeldBody(content), _CONTENT_TYPES.get(key.rpartition("/")[2], _PLAIN))

    async def _deposit(self, key: str, body: Body, content_type: str) -> Version:
        deposits = self.reporting.deposits
        try:
            target = await deposits.namespace.buckets.get(self.asked.target_bucket)
            owner = await self.reporting.owner_of(self.bucket)
            if not await self.reporting.may_write(self.bucket, target, key, owner):
                raise ReportRefused(f"the owner of {self.bucket.name} may not write into {target.name}")
            wish = Wish(SSE_S3) if self.asked.is_encrypted else None
            return await deposits.put(target, key, body, content_type, wish=wish)
        except FINAL as error:
            raise ReportRefused(f"{self.asked.target_bucket} does not take it: {error}") from error
