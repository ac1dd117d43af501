"""Many HEADs in one request: one look-up for all keys, each judged as HEAD would judge it."""

from gateway.s3.addressing import KEY_BYTES_MAX
from gateway.s3.content_keys import check_customer_key
from gateway.s3.errors import S3Error
from gateway.s3.request import Request
from gateway.s3.schemas.batch import BatchHead, KeyStatus, Statuses
from metadata.types import Version
from tiers.datapath.encryption import Envelope


async def batch_head(document: BatchHead, request: Request) -> Statuses:
    """Status, size, ETag and place of each key, in the order asked."""
    asked = [key for key in document.keys if len(key.encode()) <= KEY_BYTES_MAX]
    versions = await request.namespace.objects.find_many(request.owned_bucket, asked)
    permitted = await request.permit_reads(list(zip(asked, versions, strict=True)))
    found = {
        key: _status(key, version, is_permitted=is_permitted)
        for key, version, is_permitted in zip(asked, versions, permitted, strict=True)
    }
    return Statuses([found.get(key) or KeyStatus(key, 400) for key in document.keys])


def _status(key: str, version: Version | None, *, is_permitted: bool) -> KeyStatus:
    if not is_permitted:
        return KeyStatus(key, 403)
    if version is None:
        return KeyStatus(key, 404)
    if version.encryption:
        try:
            check_customer_key(Envelope.unpack(version.encryption), None)
        except S3Error as error:
            return KeyStatus(key, error.code.status)
    return KeyStatus(key, 200, version.size, version.etag, version.tier, version.storage_class)
