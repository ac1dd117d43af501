"""What a bucket's documents say is compiled once a revision, by kind, and only when asked for."""

import msgpack
import pytest

from gateway.s3 import tags
from gateway.s3.configuration import Compiled, Configuration, Configurations
from metadata.types import Bucket, DocumentKind
from tests.unit.s3.gateway import Gateway


def test_a_kind_is_compiled_once_and_only_when_asked_for() -> None:
    seen: list[bytes] = []

    def shout(document: bytes) -> str:
        seen.append(document)
        return document.decode().upper()

    class Shouting(Configuration):
        loud = Compiled(DocumentKind.POLICY, shout)
        unset = Compiled(DocumentKind.ACL, shout)

    configuration = Shouting({"policy": b"p", "cors": b"c"})
    assert seen == []
    assert (configuration.loud, configuration.loud, configuration.unset) == ("P", "P", None)
    assert seen == [b"p"]


def test_every_kind_has_an_attribute_of_its_name() -> None:
    compiled = {name: value.kind for name, value in vars(Configuration).items() if isinstance(value, Compiled)}
    assert compiled == {kind.name.lower(): kind for kind in DocumentKind}


def test_what_cannot_be_read_is_no_unset_document() -> None:
    with pytest.raises(msgpack.FormatError):
        assert Configuration({"tagging": b"\xc1"}).tagging is None


def test_a_change_is_seen_by_the_next_request_and_nothing_is_built_again(gateway: Gateway) -> None:
    buckets, services = gateway.world.namespace.buckets, gateway.services

    async def check() -> None:
        before = await services.configuration(await buckets.get("bucket"))
        assert before.tagging is None
        assert await services.configuration(await buckets.get("bucket")) is before
        await buckets.put_document("bucket", DocumentKind.TAGGING, tags.pack([("k", "v")]))
        after = await services.configuration(await buckets.get("bucket"))
        assert after.tagging == [("k", "v")]
        assert await services.configuration(await buckets.get("bucket")) is after

    gateway.run(check())


def test_configurations_are_kept_by_revision() -> None:
    kept = Configurations()
    row = Bucket("b", 1, "owner", 1, 0, "us-east-1", 0, 0, 0, 5)
    kept.keep(row, Configuration({}), 0)
    assert kept.find(row) is not None
    assert kept.find(row._replace(revision=6)) is None
