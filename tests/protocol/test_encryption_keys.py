"""Encryption keys of a live store: rotated while it runs, lost, in a transit engine; customer keys need a safe way."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.app.encryption_keys import rotate_key
from gateway.settings.sources import load_settings
from tests.live import LiveStore
from tests.protocol.test_encryption import BUCKET, LARGE, SMALL, customer, get, refusal, rule, tells
from tests.protocol.transit_engine import TOKEN, TransitEngine

pytestmark = pytest.mark.protocol


@pytest.fixture(scope="module")
def engine() -> Iterator[TransitEngine]:
    with TransitEngine("one", "two") as serving:
        yield serving


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, engine: TransitEngine) -> Iterator[LiveStore]:
    environment = {
        "ISOTHERM_BUCKETS": BUCKET,
        "ISOTHERM_S3__DEFAULT_ENCRYPTION": "AES256",
        "ISOTHERM_ENCRYPTION__KMS": "transit",
        "ISOTHERM_ENCRYPTION__KMS_KEYS": "one,absent",
        "ISOTHERM_ENCRYPTION__DEFAULT_KMS_KEY": "one",
        "ISOTHERM_ENCRYPTION__TRANSIT_URL": engine.url,
        "ISOTHERM_ENCRYPTION__TRANSIT_TOKEN": TOKEN,
        "ISOTHERM_ENCRYPTION__TRANSIT_SECONDS": "2",
    }
    with LiveStore(tmp_path_factory.mktemp("keys") / "data", workers=1, **environment) as live:
        yield live


def key_file(store: LiveStore) -> Path:
    return store.data / "secrets" / "encryption-keys"


def test_customer_keys_are_refused_over_plain_http(store: LiveStore) -> None:
    s3 = store.client()
    for call in (s3.put_object, s3.create_multipart_upload, s3.get_object, s3.head_object):
        assert refusal(call, Bucket=BUCKET, Key="k", **customer())[0] == 400
    source = {"CopySource": f"{BUCKET}/k", **customer(prefix="CopySource")}
    assert refusal(s3.copy_object, Bucket=BUCKET, Key="k", **source) == (400, "InvalidRequest")
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET)


def test_kms_keys_in_a_transit_engine(store: LiveStore, engine: TransitEngine) -> None:
    s3 = store.client()
    wanted = {"Bucket": BUCKET, "Key": "kms", "Body": SMALL, "ServerSideEncryption": "aws:kms"}
    for key_id in ({}, {"SSEKMSKeyId": "one"}):
        assert tells(s3.put_object(**wanted, **key_id), "sse-kms")
    engine.rotate("one")
    assert get(s3, "sse-kms", "kms") == SMALL
    assert refusal(s3.put_object, **wanted, SSEKMSKeyId="absent") == (400, "KMS.NotFoundException")
    asked = len(engine.calls)
    assert refusal(s3.put_object, **wanted, SSEKMSKeyId="two") == (400, "KMS.NotFoundException")
    assert len(engine.calls) == asked, "a key that no setting names is never asked for"
    engine.fault = (503, b"")
    assert refusal(s3.put_object, **wanted, SSEKMSKeyId="one") == (503, "ServiceUnavailable")
    engine.fault = None
    assert TOKEN not in store.log.read_text()


def test_a_store_through_a_rotation_and_the_loss_of_its_keys(store: LiveStore) -> None:
    s3, keys = store.client(), key_file(store)
    assert s3.get_bucket_encryption(Bucket=BUCKET)["ServerSideEncryptionConfiguration"] == rule("AES256")
    assert tells(s3.put_object(Bucket=BUCKET, Key="old", Body=LARGE), "sse-s3")
    assert keys.stat().st_mode & 0o777 == 0o600
    assert rotate_key(load_settings(None, {"data": store.data}), "sse-s3") == 2
    assert tells(s3.put_object(Bucket=BUCKET, Key="new", Body=SMALL), "sse-s3")
    assert get(s3, "sse-s3", "old") == LARGE
    store.stop()
    saved = keys.read_text()
    keys.unlink()
    store.launch()
    assert store.process is not None
    assert store.process.wait(timeout=60) != 0
    assert "encryption-keys is missing: restore it" in store.log.read_text()
    assert not keys.exists(), "a lost key file must not be replaced by another one"
    keys.write_text(saved.partition("\n")[2])  # the first version is gone, the second is here
    keys.chmod(0o600)
    store.start()
    assert get(s3, "sse-s3", "new") == SMALL
    assert refusal(s3.get_object, Bucket=BUCKET, Key="old") == (503, "ServiceUnavailable")
    assert "version 1 of encryption key 'sse-s3' is not in" in store.log.read_text()
    keys.write_text(saved)  # and back again, without a restart
    assert get(s3, "sse-s3", "old") == LARGE
