"""What headers and documents ask for encryption, and how each wrong one is refused."""

import asyncio
import base64
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.auth.key_provider import KeyRefused, KeysUnavailable, KeyUnknown
from gateway.s3 import encryption
from gateway.s3.content_keys import ContentKeys, EncryptionRules, check_customer_key
from gateway.s3.encryption import SSE_C, SSE_KMS, SSE_S3, BucketDefault, CustomerKey, Wish
from gateway.s3.errors import S3Error
from gateway.s3.schemas.encryption import parse_default, render_default
from tiers.errors import KeyUnavailable

SECRET = bytes(range(32))
KEY = base64.b64encode(SECRET)
MD5 = base64.b64encode(hashlib.md5(SECRET).digest())
BASE = b"x-amz-server-side-encryption"
CUSTOMER = {BASE + b"-customer-algorithm": b"AES256", BASE + b"-customer-key": KEY, BASE + b"-customer-key-md5": MD5}
OWN = CustomerKey(SECRET, MD5.decode())
OTHER = CustomerKey(bytes(32), "other")


def context_of(document: Any) -> bytes:
    return base64.b64encode(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("fields", "wish"),
    [
        ({}, None),
        ({b"content-type": b"text/plain"}, None),
        ({BASE: b"AES256"}, Wish(SSE_S3)),
        ({BASE: b"AES256", BASE + b"-bucket-key-enabled": b"true"}, Wish(SSE_S3)),
        ({BASE: b"aws:kms"}, Wish(SSE_KMS)),
        ({BASE: b"aws:kms", BASE + b"-aws-kms-key-id": b"one"}, Wish(SSE_KMS, "one")),
        ({BASE: b"aws:kms", BASE + b"-bucket-key-enabled": b"True"}, Wish(SSE_KMS, is_bucket_key=True)),
        (
            {BASE: b"aws:kms", BASE + b"-context": context_of({"b": "1", "a": "2"})},
            Wish(SSE_KMS, context=b'{"a":"2","b":"1"}'),
        ),
        (CUSTOMER, Wish(SSE_C, customer=OWN)),
    ],
)
def test_what_a_write_asks_for(fields: Mapping[bytes, bytes], wish: Wish | None) -> None:
    assert encryption.wish_of(fields) == wish


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({BASE: b""}, "InvalidArgument"),
        ({BASE: b"aes256"}, "InvalidArgument"),
        ({BASE: b"AES192"}, "InvalidArgument"),
        ({BASE: b"aes:kms"}, "InvalidArgument"),
        ({BASE: b"aws:kms:dsse"}, "NotImplemented"),
        ({BASE: b"aws:fsx"}, "NotImplemented"),
        ({BASE + b"-aws-kms-key-id": b"one"}, "InvalidArgument"),
        ({BASE: b"AES256", BASE + b"-aws-kms-key-id": b"one"}, "InvalidArgument"),
        ({BASE: b"AES256", BASE + b"-context": context_of({})}, "InvalidArgument"),
        ({BASE + b"-bucket-key-enabled": b"true"}, "InvalidArgument"),
        ({BASE: b"aws:kms", BASE + b"-bucket-key-enabled": b"yes"}, "InvalidArgument"),
        ({BASE: b"aws:kms", BASE + b"-aws-kms-key-id": b"a\xffb"}, "InvalidArgument"),
        ({BASE: b"aws:kms", BASE + b"-aws-kms-key-id": b"k" * 2049}, "InvalidArgument"),
        ({BASE: b"aws:kms", BASE + b"-context": b"%%"}, "InvalidArgument"),
        ({BASE: b"aws:kms", BASE + b"-context": context_of(["a"])}, "InvalidArgument"),
        ({BASE: b"aws:kms", BASE + b"-context": context_of({"a": 1})}, "InvalidArgument"),
        ({BASE: b"aws:kms", BASE + b"-context": base64.b64encode(b'{"a":"1","a":"2"}')}, "InvalidArgument"),
        ({BASE: b"aws:kms", BASE + b"-context": base64.b64encode(b"[" * 5000)}, "InvalidArgument"),
        ({BASE: b"aws:kms", BASE + b"-context": b"A" * 8196}, "InvalidArgument"),
        ({**CUSTOMER, BASE: b"AES256"}, "InvalidArgument"),
        ({**CUSTOMER, BASE: b"aws:kms"}, "InvalidArgument"),
        ({**CUSTOMER, BASE + b"-aws-kms-key-id": b"one"}, "InvalidArgument"),
        ({**CUSTOMER, BASE + b"-customer-algorithm": b"AES128"}, "InvalidEncryptionAlgorithmError"),
        ({**CUSTOMER, BASE + b"-customer-algorithm": b""}, "InvalidArgument"),
        ({**CUSTOMER, BASE + b"-customer-key": base64.b64encode(bytes(16))}, "InvalidArgument"),
        ({**CUSTOMER, BASE + b"-customer-key": b"no base64"}, "InvalidArgument"),
        ({**CUSTOMER, BASE + b"-customer-key-md5": base64.b64encode(bytes(16))}, "InvalidArgument"),
        ({**CUSTOMER, BASE + b"-customer-key-md5": b"\xff"}, "InvalidArgument"),
        *[(dict(CUSTOMER.items() - {(name, CUSTOMER[name])}), "InvalidArgument") for name in CUSTOMER],
        *[({name: value}, "InvalidArgument") for name, value in CUSTOMER.items()],
    ],
)  # fmt: skip
def test_what_a_write_must_not_say(fields: Mapping[bytes, bytes], code: str) -> None:
    with pytest.raises(S3Error) as told:
        encryption.wish_of(fields)
    assert told.value.code.name == code
    assert KEY.decode() not in str(told.value.elements)


@pytest.mark.parametrize("name", [BASE, BASE + b"-aws-kms-key-id", BASE + b"-context", BASE + b"-bucket-key-enabled"])
def test_a_read_must_not_tell_the_store_how_it_encrypted(name: bytes) -> None:
    with pytest.raises(S3Error) as told:
        encryption.customer_key_of_read({name: b"AES256"})
    assert told.value.code.name == "InvalidArgument"
    assert encryption.customer_key_of_read(CUSTOMER) == OWN
    assert encryption.customer_key_of_read({}) is None


def test_the_key_of_a_copys_source_has_its_own_headers() -> None:
    source = {b"x-amz-copy-source" + name[5:]: value for name, value in CUSTOMER.items()}
    assert encryption.source_key_of(source) == OWN
    assert encryption.customer_key_of(source) is encryption.source_key_of(CUSTOMER) is None


class MemoryKeys:
    """A key provider that wraps by adding the context; `fault` is raised instead."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault

    async def wrap(self, key_id: str, data_key: bytes, context: bytes) -> bytes:
        if self.fault is not None:
            raise self.fault
        return b"|".join([key_id.encode(), context, data_key])

    async def unwrap(self, key_id: str, wrapped: bytes, context: bytes) -> bytes:
        if self.fault is not None:
            raise self.fault
        assert wrapped.startswith(b"|".join([key_id.encode(), context, b""]))
        return wrapped[-32:]


def content_keys(fault: Exception | None = None, **rules: Any) -> ContentKeys:
    provider = MemoryKeys(fault)
    return ContentKeys({SSE_S3: provider, SSE_KMS: provider}, EncryptionRules(**rules), os.urandom)


WISHES = [Wish(SSE_S3), Wish(SSE_KMS, "one", b'{"a":"b"}', is_bucket_key=True), Wish(SSE_C, customer=OWN)]


@pytest.mark.parametrize("wish", WISHES)
def test_what_is_made_opens_again_and_is_never_made_twice(wish: Wish) -> None:
    keys = content_keys()
    made, again = asyncio.run(keys.make(wish)), asyncio.run(keys.make(wish))
    assert asyncio.run(keys.open(made.envelope, wish.customer)).data_key == made.data_key
    assert made.data_key != again.data_key
    assert made.envelope.nonce != again.envelope.nonce
    assert keys.is_like(made.envelope, wish)
    assert [keys.is_like(made.envelope, other) for other in WISHES].count(True) == 1


def test_an_envelope_is_committed_to_its_customers_key() -> None:
    keys = content_keys()
    made = asyncio.run(keys.make(Wish(SSE_C, customer=OWN)))
    assert SECRET not in made.envelope.pack()
    assert not keys.is_like(made.envelope, Wish(SSE_C, customer=OTHER))
    for brought in (None, OTHER):
        with pytest.raises(S3Error) as told:
            asyncio.run(keys.open(made.envelope, brought))
        assert told.value.code.name == "InvalidRequest"
    with pytest.raises(KeyUnavailable):
        asyncio.run(keys.open(made.envelope._replace(wrapped_key=bytes(48)), OWN))


def test_a_customer_key_means_nothing_to_other_contents() -> None:
    clear_and_other = [None, asyncio.run(content_keys().make(Wish(SSE_S3))).envelope]
    for envelope in clear_and_other:
        check_customer_key(envelope, None)
        with pytest.raises(S3Error):
            check_customer_key(envelope, OWN)


@pytest.mark.parametrize(
    ("wish", "fault", "code"),
    [
        (Wish(SSE_KMS, "one"), KeyUnknown("one"), "KMS.NotFoundException"),
        (Wish(SSE_S3), KeyUnknown("sse-s3"), None),
        (Wish(SSE_KMS, "one"), KeyRefused("no"), None),
        (Wish(SSE_KMS, "one"), KeysUnavailable("no"), None),
    ],
)
def test_faults_of_a_provider(wish: Wish, fault: Exception, code: str | None) -> None:
    made = asyncio.run(content_keys().make(wish))
    for act in (content_keys(fault).make(wish), content_keys(fault).open(made.envelope, None)):
        with pytest.raises((S3Error, KeyUnavailable)) as told:
            asyncio.run(act)
        assert (told.value.code.name if isinstance(told.value, S3Error) else None) == code


def test_the_default_key_of_the_store() -> None:
    with pytest.raises(S3Error) as told:
        asyncio.run(content_keys().make(Wish(SSE_KMS)))
    assert told.value.code.name == "InvalidArgument"
    keys = content_keys(default_kms_key="two")
    made = asyncio.run(keys.make(Wish(SSE_KMS)))
    assert made.envelope.key_id == "two"
    assert keys.is_like(made.envelope, Wish(SSE_KMS))
    assert keys.is_like(made.envelope, Wish(SSE_KMS, "two"))


def test_an_arn_names_the_key_by_its_last_piece_and_is_told_whole() -> None:
    arn = "arn:aws:kms:us-east-1:123456789012:key/one"
    made = asyncio.run(content_keys().make(Wish(SSE_KMS, arn)))
    assert made.envelope.wrapped_key.startswith(b"one|")
    assert dict(encryption.answer_lines(made.envelope, None))[BASE + b"-aws-kms-key-id"] == arn.encode()


def test_what_answers_tell() -> None:
    keys = content_keys()
    s3, kms, customer = [asyncio.run(keys.make(wish)).envelope for wish in WISHES]
    assert encryption.answer_lines(s3, None) == [(BASE, b"AES256")]
    assert encryption.answer_lines(kms, None) == [
        (BASE, b"aws:kms"),
        (BASE + b"-aws-kms-key-id", b"one"),
        (BASE + b"-bucket-key-enabled", b"true"),
    ]
    assert encryption.answer_lines(customer, OWN) == [
        (BASE + b"-customer-algorithm", b"AES256"),
        (BASE + b"-customer-key-md5", MD5),
    ]
    assert encryption.context_lines(kms) == [(BASE + b"-context", base64.b64encode(b'{"a":"b"}'))]
    assert encryption.context_lines(s3) == []


RULE = "<ServerSideEncryptionConfiguration><Rule>{}</Rule></ServerSideEncryptionConfiguration>"
BY_DEFAULT = "<ApplyServerSideEncryptionByDefault>{}</ApplyServerSideEncryptionByDefault>"
AES = BY_DEFAULT.format("<SSEAlgorithm>AES256</SSEAlgorithm>")
KMS = BY_DEFAULT.format("<SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>one</KMSMasterKeyID>")
BLOCKED = "<BlockedEncryptionTypes><EncryptionType>SSE-C</EncryptionType></BlockedEncryptionTypes>"


@pytest.mark.parametrize(
    ("rule", "default", "wish"),
    [
        (AES, BucketDefault(SSE_S3), Wish(SSE_S3)),
        (f"{AES}<BucketKeyEnabled>true</BucketKeyEnabled>", BucketDefault(SSE_S3, bucket_key=True), Wish(SSE_S3)),
        (
            f"{KMS}<BucketKeyEnabled>true</BucketKeyEnabled>",
            BucketDefault(SSE_KMS, "one", bucket_key=True),
            Wish(SSE_KMS, "one", is_bucket_key=True),
        ),
        (KMS, BucketDefault(SSE_KMS, "one"), Wish(SSE_KMS, "one")),
        (f"{AES}<BucketKeyEnabled>false</BucketKeyEnabled>", BucketDefault(SSE_S3, bucket_key=False), Wish(SSE_S3)),
        (f"{AES}{BLOCKED}", BucketDefault(SSE_S3, blocked=(SSE_C,)), Wish(SSE_S3)),
        (BLOCKED, BucketDefault(blocked=(SSE_C,)), None),
    ],
)  # fmt: skip
def test_a_configuration_reads_back_as_put(rule: str, default: BucketDefault, wish: Wish | None) -> None:
    parsed = parse_default(RULE.format(rule).encode())
    assert parsed == default == encryption.compile_default(default.pack())
    assert parsed.wish == wish
    assert parse_default(render_default(parsed)) == parsed
    assert parsed.blocks_customer_keys == (SSE_C in default.blocked)


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (b"", "MalformedXML"),
        (b"<ServerSideEncryptionConfiguration/>", "MalformedXML"),
        (RULE.format("").encode(), "MalformedXML"),
        (RULE.format(BY_DEFAULT.format("")).encode(), "MalformedXML"),
        (RULE.format(AES + AES).encode(), "MalformedXML"),
        (RULE.format(AES).replace("</Rule>", f"</Rule><Rule>{AES}</Rule>").encode(), "MalformedXML"),
        (RULE.format(AES.replace("AES256", "AES128")).encode(), "MalformedXML"),
        (RULE.format(AES.replace("AES256", "aws:kms:dsse")).encode(), "NotImplemented"),
        (RULE.format(KMS.replace("aws:kms", "AES256")).encode(), "InvalidArgument"),
        (RULE.format(KMS.replace("one", "\u00e9")).encode(), "InvalidArgument"),
        (RULE.format(f"{AES}<BucketKeyEnabled>yes</BucketKeyEnabled>").encode(), "MalformedXML"),
        (RULE.format(BLOCKED.replace("SSE-C", "SSE-S3")).encode(), "MalformedXML"),
        (RULE.format("<BucketKeyEnabled>true</BucketKeyEnabled>").encode(), "MalformedXML"),
    ],
)
def test_a_configuration_that_is_none(document: bytes, code: str) -> None:
    with pytest.raises(S3Error) as told:
        parse_default(document)
    assert told.value.code.name == code
