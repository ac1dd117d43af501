"""Configurations by id: what documents may say, and that they come back as they were put."""

import pytest

from gateway.s3 import intelligent_tiering, inventory, xml
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.intelligent_tiering import IntelligentTiering
from gateway.s3.inventory import Inventory
from gateway.s3.schemas.by_id import inner_xml

INVENTORY = (
    b"<InventoryConfiguration><Destination><S3BucketDestination><Bucket>arn:aws:s3:::reports</Bucket>"
    b"<Format>CSV</Format><Prefix>daily</Prefix><Encryption><SSE-S3></SSE-S3></Encryption></S3BucketDestination>"
    b"</Destination><IsEnabled>true</IsEnabled><Filter><Prefix>logs/</Prefix></Filter><Id>all</Id>"
    b"<IncludedObjectVersions>All</IncludedObjectVersions><OptionalFields><Field>Size</Field><Field>ETag</Field>"
    b"</OptionalFields><Schedule><Frequency>Weekly</Frequency></Schedule></InventoryConfiguration>"
)
TIERING = (
    b"<IntelligentTieringConfiguration><Id>cold</Id><Filter><And><Prefix>a&amp;b</Prefix><Tag><Key>k</Key>"
    b"<Value>v</Value></Tag></And></Filter><Status>Enabled</Status><Tiering><Days>90</Days>"
    b"<AccessTier>ARCHIVE_ACCESS</AccessTier></Tiering><Tiering><Days>180</Days>"
    b"<AccessTier>DEEP_ARCHIVE_ACCESS</AccessTier></Tiering></IntelligentTieringConfiguration>"
)


def test_an_inventory() -> None:
    root = xml.read(INVENTORY, inventory.ROOTS)
    expected = Inventory("all", True, "logs/", True, ("Size", "ETag"), True, "reports", "daily", "CSV", True)
    assert inventory.parse(root) == expected
    assert b"<InventoryConfiguration>" + inner_xml(root) + b"</InventoryConfiguration>" == INVENTORY


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (b"<Id>all</Id>", b"", S3Code.MalformedXML),
        (b"true", b"yes", S3Code.MalformedXML),
        (b"All<", b"Some<", S3Code.MalformedXML),
        (b"Weekly", b"Hourly", S3Code.MalformedXML),
        (b"CSV", b"JSON", S3Code.MalformedXML),
        (b"CSV", b"ORC", S3Code.NotImplemented),
        (b"Size", b"Colour", S3Code.MalformedXML),
        (b"Size", b"ETag", S3Code.MalformedXML),
        (b"Size", b"ObjectLockEventHoldStatus", S3Code.NotImplemented),
        (b"arn:aws:s3:::reports", b"reports", S3Code.InvalidArgument),
        (b"arn:aws:s3:::reports", b"arn:aws:s3:::reports/prefix", S3Code.InvalidArgument),
        (b"daily", b"d" * 513, S3Code.InvalidArgument),
        (b"<SSE-S3></SSE-S3>", b"<SSE-KMS><KeyId>k</KeyId></SSE-KMS>", S3Code.NotImplemented),
    ],
)
def test_inventories_refused(old: bytes, new: bytes, code: S3Code) -> None:
    assert INVENTORY.count(old) == 1
    with pytest.raises(S3Error) as caught:
        inventory.parse(xml.read(INVENTORY.replace(old, new), inventory.ROOTS))
    assert caught.value.code is code


def test_an_intelligent_tiering() -> None:
    root = xml.read(TIERING, intelligent_tiering.ROOTS)
    tierings = (("ARCHIVE_ACCESS", 90), ("DEEP_ARCHIVE_ACCESS", 180))
    assert intelligent_tiering.parse(root) == IntelligentTiering("cold", True, "a&b", (("k", "v"),), tierings)
    whole = b"<IntelligentTieringConfiguration>" + inner_xml(root) + b"</IntelligentTieringConfiguration>"
    assert whole == TIERING


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (b"Enabled", b"On", S3Code.MalformedXML),
        (b"<Days>90", b"<Days>89", S3Code.InvalidArgument),
        (b"<Days>180", b"<Days>179", S3Code.InvalidArgument),
        (b"<Days>180", b"<Days>731", S3Code.InvalidArgument),
        (b"<Days>180", b"<Days>-180", S3Code.MalformedXML),
        (b"<Days>180", b"<Days>" + b"9" * 5000, S3Code.InvalidArgument),
        (b"DEEP_ARCHIVE_ACCESS", b"ARCHIVE_ACCESS", S3Code.MalformedXML),
        (b"DEEP_ARCHIVE_ACCESS", b"FREEZER", S3Code.MalformedXML),
        (b"<Prefix>a&amp;b</Prefix>", b"", S3Code.MalformedXML),
        (b"<And>", b"<Prefix>x</Prefix><And>", S3Code.MalformedXML),
        (b"<Key>k</Key>", b"<Key>aws:k</Key>", S3Code.InvalidTag),
    ],
)
def test_intelligent_tierings_refused(old: bytes, new: bytes, code: S3Code) -> None:
    assert TIERING.count(old) == 1
    with pytest.raises(S3Error) as caught:
        intelligent_tiering.parse(xml.read(TIERING.replace(old, new), intelligent_tiering.ROOTS))
    assert caught.value.code is code
