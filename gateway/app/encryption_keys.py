"""Encryption keys of a store: made at first start, missed when they are gone, joined to the providers that use them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import token_bytes

from gateway.auth.key_file import SSE_S3_KEY, FileKeys, KeyFileRefused, add_key, read_keys
from gateway.auth.key_provider import KeyProvider
from gateway.auth.transit import TransitKeys, TransitSettings
from gateway.s3.content_keys import ContentKeys, EncryptionRules
from gateway.s3.encryption import SSE_KMS, SSE_S3
from gateway.settings.first_start import KEY_FILE, SecretsRefused, folder_of
from gateway.settings.tree import Settings
from metadata.contract import Reader
from metadata.tables import REVISION
from tiers.commit.contract import Committer
from tiers.namespace.key_versions import NoteKeyVersion, revision_of

TRANSIT_THREADS = 8
"""Requests to a transit engine at once; a data key made or opened takes one each, an opened one is kept a while."""


def key_file(settings: Settings) -> Path:
    """Where the encryption keys lie."""
    return folder_of(settings) / KEY_FILE


def _own_names(settings: Settings) -> tuple[str, ...]:
    """The keys that the file must hold."""
    return (SSE_S3_KEY, *(settings.encryption.kms_keys if settings.encryption.kms == "file" else ()))


async def prepare_keys(settings: Settings, reader: Reader, committer: Committer) -> None:
    """Make the keys that the settings name and that never were; one that was and is gone is an error.

    The database remembers the newest version of every key, without the key. Errors: SecretsRefused.
    """
    path = key_file(settings)
    for name in _own_names(settings):
        row = await reader.get_row(REVISION, (revision_of(name),))
        known = 0 if row is None else row.value
        try:
            newest = max(read_keys(path).get(name, {}), default=0) if path.exists() or known else 0
            if newest < known:
                raise SecretsRefused(
                    f"{path} lacks version {known} of key {name!r}, which encrypted contents need: restore the file"
                )
            newest = newest or add_key(path, name, token_bytes)
        except KeyFileRefused as error:
            raise SecretsRefused(str(error)) from error
        if newest > known:
            await committer.submit(NoteKeyVersion(name, newest))


def rotate_key(settings: Settings, name: str) -> int:
    """Add a version to a key of the file; running processes wrap with it at once. Errors: SecretsRefused, OSError."""
    path = key_file(settings)
    try:
        if name not in read_keys(path):
            raise SecretsRefused(f"{path} has no key {name!r}; keys are made at start from encryption.kms_keys")
        return add_key(path, name, token_bytes)
    except KeyFileRefused as error:
        raise SecretsRefused(str(error)) from error


def new_content_keys(settings: Settings, ticks: Callable[[], float]) -> ContentKeys:
    """The keys of one process. Errors: SecretsRefused."""
    try:
        own = FileKeys(key_file(settings), (SSE_S3_KEY,), token_bytes)
        providers: dict[str, KeyProvider] = {SSE_S3: own, SSE_KMS: _kms(settings, ticks)}
    except (KeyFileRefused, OSError) as error:
        raise SecretsRefused(str(error)) from error
    rules = EncryptionRules(
        default_method=settings.s3.default_encryption,
        default_kms_key=settings.encryption.default_kms_key,
        customer_keys_over_http=settings.s3.sse_c_over_http,
    )
    return ContentKeys(providers, rules, token_bytes)


def _kms(settings: Settings, ticks: Callable[[], float]) -> KeyProvider:
    chosen = settings.encryption
    if chosen.kms == "file":
        return FileKeys(key_file(settings), chosen.kms_keys, token_bytes)
    transit = TransitSettings(
        url=chosen.transit_url,
        mount=chosen.transit_mount,
        token=chosen.transit_token.get_secret_value(),
        ca_file=str(chosen.transit_certificates or ""),
        timeout_seconds=chosen.transit_seconds,
    )
    return TransitKeys(transit, chosen.kms_keys, ThreadPoolExecutor(TRANSIT_THREADS, "transit"), ticks)
