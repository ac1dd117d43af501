"""The keys of encrypted contents: made for a write, opened for a read, never kept longer than the request.

A data key is random and fresh for every content (an upload is one). It is kept wrapped: by a key of the store
(SSE-S3, SSE-KMS), or by a key derived from the client's (SSE-C), to which the envelope is committed, so that no second
key opens it.
"""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.auth.key_file import SSE_S3_KEY
from gateway.auth.key_provider import KeyProvider, KeyRefused, KeysUnavailable, KeyUnknown
from gateway.s3.encryption import SSE_C, SSE_KMS, SSE_S3, BucketDefault, CustomerKey, Wish
from gateway.s3.errors import S3Code, S3Error
from tiers.datapath.encryption import KEY_BYTES, NONCE_BYTES, ContentKey, Envelope
from tiers.errors import KeyUnavailable

_GCM_NONCE: Final = bytes(12)  # the key is derived from a fresh nonce, so it seals once
_MISSING: Final = (
    "The object was stored using a form of Server Side Encryption. The correct parameters must be provided to retrieve "
    "the object."
)
_OTHER: Final = "The provided encryption parameters did not match the ones used originally."
_IDLE: Final = "The encryption parameters are not applicable to this object."


@dataclass(frozen=True, slots=True)
class EncryptionRules:
    """The operator's choices. `default_method` empty leaves contents in the clear where nothing asks otherwise."""

    default_method: str = ""
    default_kms_key: str = ""
    customer_keys_over_http: bool = False


class ContentKeys:
    """Makes and opens content keys by the providers of the store. `token_bytes` is a source of secure random bytes."""

    def __init__(
        self,
        providers: Mapping[str, KeyProvider],
        rules: EncryptionRules,
        token_bytes: Callable[[int], bytes],
    ) -> None:
        assert providers.keys() == {SSE_S3, SSE_KMS}
        self.rules = rules
        self._providers = providers
        self._token_bytes = token_bytes
        self._unset = BucketDefault(rules.default_method)

    def default_of(self, configured: BucketDefault | None) -> BucketDefault:
        """A bucket's configuration, else the store's."""
        return self._unset if configured is None else configured

    async def make(self, wish: Wish) -> ContentKey:
        """A fresh key for one content.

        Errors: InvalidArgument (SSE-KMS without a key id where the store has no default key), KMS.NotFoundException,
        KeyUnavailable.
        """
        data_key, nonce = self._token_bytes(KEY_BYTES), self._token_bytes(NONCE_BYTES)
        if wish.kind == SSE_C:
            assert wish.customer is not None
            commitment, cipher = _customer_cipher(wish.customer, nonce)
            wrapped = cipher.encrypt(_GCM_NONCE, data_key, nonce)
            return ContentKey(data_key, Envelope(SSE_C, "", wrapped, nonce, commitment=commitment))
        envelope = Envelope(wish.kind, self._key_id(wish), b"", nonce, wish.context, is_bucket_key=wish.is_bucket_key)
        try:
            wrapped = await self._providers[wish.kind].wrap(_provider_name(envelope), data_key, _binding(envelope))
        except (KeyUnknown, KeyRefused, KeysUnavailable) as error:
            raise _told(error, envelope) from error
        return ContentKey(data_key, envelope._replace(wrapped_key=wrapped))

    def _key_id(self, wish: Wish) -> str:
        if wish.kind != SSE_KMS or wish.key_id:
            return wish.key_id
        if not self.rules.default_kms_key:
            message = "This store has no default KMS key: name one in x-amz-server-side-encryption-aws-kms-key-id."
            raise S3Error(S3Code.InvalidArgument, message)
        return self.rules.default_kms_key

    def is_like(self, envelope: Envelope, wish: Wish) -> bool:
        """Whether a content encrypted so is what `wish` asks for: then a copy may share its bytes."""
        if envelope.kind != wish.kind:
            return False
        if wish.kind == SSE_C:
            assert wish.customer is not None
            return _is_committed(envelope, wish.customer)
        same = (envelope.context, envelope.is_bucket_key) == (wish.context, wish.is_bucket_key)
        return same and envelope.key_id == self._key_id(wish)

    async def open(self, envelope: Envelope, customer: CustomerKey | None) -> ContentKey:
        """The key of a stored content. Errors: those of `check_customer_key`; KMS.NotFoundException, KeyUnavailable."""
        check_customer_key(envelope, customer)
        if customer is not None:
            _, cipher = _customer_cipher(customer, envelope.nonce)
            try:
                return ContentKey(cipher.decrypt(_GCM_NONCE, envelope.wrapped_key, envelope.nonce), envelope)
            except InvalidTag as error:
                raise KeyUnavailable("a wrapped key was changed: its own customer key does not open it") from error
        try:
            provider = self._providers[envelope.kind]
            data_key = await provider.unwrap(_provider_name(envelope), envelope.wrapped_key, _binding(envelope))
        except (KeyUnknown, KeyRefused, KeysUnavailable) as error:
            raise _told(error, envelope) from error
        return ContentKey(data_key, envelope)


def check_customer_key(envelope: Envelope | None, customer: CustomerKey | None) -> None:
    """Compare the key a request brings with what the content needs; `envelope` None is a content in the clear.

    Errors: InvalidRequest when one is needed and missing, is another one, or means nothing here.
    """
    needs_key = envelope is not None and envelope.kind == SSE_C
    if needs_key and customer is None:
        raise S3Error(S3Code.InvalidRequest, _MISSING)
    if customer is None:
        return
    if envelope is None or not needs_key:
        raise S3Error(S3Code.InvalidRequest, _IDLE)
    if not _is_committed(envelope, customer):
        raise S3Error(S3Code.InvalidRequest, _OTHER)


def _told(error: Exception, envelope: Envelope) -> Exception:
    if isinstance(error, KeyUnknown) and envelope.kind == SSE_KMS:
        return S3Error(S3Code["KMS.NotFoundException"], f"Key '{envelope.key_id}' does not exist")
    return KeyUnavailable(str(error))


def _provider_name(envelope: Envelope) -> str:
    """The name of a key in its provider: of an ARN or an alias only the last piece."""
    return SSE_S3_KEY if envelope.kind == SSE_S3 else envelope.key_id.rpartition("/")[2]


def _binding(envelope: Envelope) -> bytes:
    return b"%b\0%b\0%b" % (envelope.kind.encode(), envelope.nonce, envelope.context)


def _customer_cipher(customer: CustomerKey, nonce: bytes) -> tuple[bytes, AESGCM]:
    """The commitment to a customer's key, and the cipher that wraps under it; both for one content only."""
    wrapping = hmac.digest(customer.key, b"isotherm customer key wrapping" + nonce, "sha256")
    return _commitment(customer, nonce), AESGCM(wrapping)


def _commitment(customer: CustomerKey, nonce: bytes) -> bytes:
    return hmac.digest(customer.key, b"isotherm customer key commitment" + nonce, "sha256")


def _is_committed(envelope: Envelope, customer: CustomerKey) -> bool:
    return hmac.compare_digest(envelope.commitment, _commitment(customer, envelope.nonce))
