"""Devices, tiers and buckets: list and show."""

from collections.abc import Mapping, Sequence

from fastapi import Path

from gateway.admin.documents import Bucket, BucketPage, Device, DevicePage, Id, Tier, TierList, iso_time
from gateway.admin.paging import LIMIT_DEFAULT, Cursor, Limit
from gateway.admin.problems import Problem
from gateway.admin.services import Services, Serving, Space
from metadata import types
from metadata.tables import DEVICE
from tiers.catalogue import Catalogue, read_catalogue


async def list_devices(services: Serving, limit: Limit = LIMIT_DEFAULT, cursor: Cursor = "") -> DevicePage:
    """Devices by id with their space."""
    bound = services.cursors.bound(limit)
    rows = await services.reader.scan(DEVICE, services.cursors.decode("devices", cursor), bound)
    space = await services.space()
    following = services.cursors.encode("devices", (rows[-1].device_id,)) if len(rows) == bound else ""
    return DevicePage(devices=[_device_of(row, space) for row in rows], next_cursor=following)


async def show_device(services: Serving, device_id: Id) -> Device:
    """One device with its space."""
    row = await services.reader.get_row(DEVICE, (device_id,))
    if row is None:
        raise Problem(404, "NotFound", "There is no such device.")
    return _device_of(row, await services.space())


async def list_tiers(services: Serving) -> TierList:
    """All tiers, fast to slow, with the space of their devices."""
    return TierList(tiers=await _tiers(services))


async def show_tier(services: Serving, tier: Id) -> Tier:
    """One tier."""
    for document in await _tiers(services):
        if document.name == tier:
            return document
    raise Problem(404, "NotFound", "There is no such tier.")


async def list_buckets(services: Serving, limit: Limit = LIMIT_DEFAULT, cursor: Cursor = "") -> BucketPage:
    """Buckets by name with their exact usage."""
    bound = services.cursors.bound(limit)
    after = services.cursors.decode("buckets", cursor)
    rows = await services.reader.list_buckets("" if after is None else str(after[0]), bound)
    following = services.cursors.encode("buckets", (rows[-1].name,)) if len(rows) == bound else ""
    return BucketPage(buckets=[_bucket_of(row) for row in rows], next_cursor=following)


async def show_bucket(services: Serving, bucket: str = Path(max_length=63)) -> Bucket:
    """One bucket with its exact usage."""
    row = await services.reader.find_bucket(bucket)
    if row is None:
        raise Problem(404, "NotFound", "There is no such bucket.")
    return _bucket_of(row)


async def _tiers(services: Services) -> Sequence[Tier]:
    catalogue = await read_catalogue(services.reader)
    space = await services.space()
    return [_tier_of(catalogue, name.name, space) for name in catalogue.tiers()]


def _tier_of(catalogue: Catalogue, name: str, space: Mapping[str, Space | None]) -> Tier:
    tier = catalogue.tier(name)
    answers = [answer for device in catalogue.devices(name) if (answer := space.get(device.device_id)) is not None]
    return Tier(
        name=name,
        rank=tier.rank,
        layout=tier.layout,
        pack_copies=tier.pack_copies,
        storage_classes=tier.storage_classes,
        access_mode=tier.access_mode.value,
        durability=tier.durability.value,
        medium=tier.medium,
        devices=len(catalogue.devices(name)),
        total_bytes=sum(answer.total_bytes for answer in answers),
        free_bytes=sum(answer.free_bytes for answer in answers),
    )


def _device_of(row: types.Device, space: Mapping[str, Space | None]) -> Device:
    answer = space.get(row.device_id)
    return Device(
        id=row.device_id,
        tier=row.tier,
        kind=row.kind,
        location=row.location,
        state=types.DeviceState(row.state).name.lower(),
        host=row.host,
        rack=row.rack,
        zone=row.zone,
        site=row.site,
        total_bytes=None if answer is None else answer.total_bytes,
        free_bytes=None if answer is None else answer.free_bytes,
    )


def _bucket_of(row: types.Bucket) -> Bucket:
    return Bucket(
        name=row.name,
        owner_id=row.owner_id,
        created=iso_time(row.created_ms),
        versioning=types.Versioning(row.versioning).name.lower(),
        region=row.region,
        object_count=row.object_count,
        version_count=row.version_count,
        byte_count=row.byte_count,
    )
