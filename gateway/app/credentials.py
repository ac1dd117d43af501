"""The master key, the root account, and the access keys as the key ring wants them."""

import hmac
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from secrets import token_bytes
from typing import Any

from gateway.auth.keyring import Credential, KeyRing, Principal
from gateway.auth.secrets import MasterKeyRefused, SecretBox, SecretUnreadable, create_master_key, load_master_key
from gateway.settings.first_start import MASTER_KEY_FILE, Secrets, SecretsRefused, folder_of
from gateway.settings.tree import Settings
from metadata.contract import Reader
from metadata.tables import ACCESS_KEY, PRINCIPAL, REVISION, Table
from metadata.types import Principal as PrincipalRow
from tiers.commit.contract import Committer
from tiers.namespace.accounts import ROOT_PRINCIPAL_ID, EnsureRoot
from tiers.namespace.quotas import NO_RATE, Rate, unpack_allowance
from tiers.namespace.revisions import CREDENTIALS

_PAGE_ROWS = 1000


def master_key_path(settings: Settings) -> Path:
    """Where the master key lies."""
    return folder_of(settings) / MASTER_KEY_FILE


def load_master(settings: Settings) -> bytes:
    """The master key. Errors: SecretsRefused."""
    try:
        return load_master_key(master_key_path(settings))
    except MasterKeyRefused as error:
        raise SecretsRefused(f"master key: {error}") from error


async def prepare_master(settings: Settings, reader: Reader) -> bytes:
    """The master key, made at the first start only: with another one nobody could open the keys in the database.

    Errors: SecretsRefused.
    """
    if not master_key_path(settings).exists():
        if await reader.scan(ACCESS_KEY, None, 1):
            path = master_key_path(settings)
            raise SecretsRefused(f"{path} is missing and the access keys need it: restore it from your backup")
        create_master_key(master_key_path(settings), token_bytes)
    return load_master(settings)


def derived_key(master_key: bytes, purpose: str) -> bytes:
    """32 bytes for one purpose; equal in every process of the store."""
    return hmac.digest(master_key, f"isotherm {purpose}".encode(), "sha256")


async def ensure_root(reader: Reader, committer: Committer, box: SecretBox, secrets: Secrets) -> None:
    """Make the root account's key the configured one. Commits nothing when it is already.

    Errors: SecretsRefused when the envelope does not open: a wrong master key must not start.
    """
    row = await reader.get_row(ACCESS_KEY, (secrets.root_access_key,))
    root = await reader.get_row(PRINCIPAL, (ROOT_PRINCIPAL_ID,))
    others = await _active_root_keys(reader) - {secrets.root_access_key}
    if root is not None and row is not None and row.state and row.principal_id == ROOT_PRINCIPAL_ID and not others:
        try:
            opened = box.open(row.secret, principal_id=row.principal_id, access_key_id=row.access_key_id)
        except SecretUnreadable as error:
            raise SecretsRefused(
                "the master key does not open the root account's key: restore the right one"
            ) from error
        if hmac.compare_digest(opened, secrets.root_secret_key.encode()):
            return
    envelope = box.seal(
        secrets.root_secret_key.encode(), principal_id=ROOT_PRINCIPAL_ID, access_key_id=secrets.root_access_key
    )
    await committer.submit(EnsureRoot(secrets.root_access_key, envelope))


async def _active_root_keys(reader: Reader) -> set[str]:
    rows = await _all_rows(reader, ACCESS_KEY)
    return {row.access_key_id for row in rows if row.principal_id == ROOT_PRINCIPAL_ID and row.state}


UseRates = Callable[[Mapping[str, Rate], Mapping[str, Rate]], None]
"""Takes the rates of users by principal id, and of access keys by id; those without a limit are left out."""


class CredentialSource:
    """Reads the access keys, and notices when another process changed them.

    `use_rates` is told the rates of users and keys whenever they were read.
    """

    def __init__(self, reader: Reader, box: SecretBox, use_rates: UseRates | None = None) -> None:
        self._reader = reader
        self._box = box
        self._use_rates = use_rates
        self._revision = -1

    async def load(self) -> Iterable[Credential]:
        """Every active key of an enabled principal. Errors: SecretUnreadable (wrong master key)."""
        self._revision = await self._current()
        principals = {row.principal_id: row for row in await _all_rows(self._reader, PRINCIPAL) if row.state}
        self._tell_rates(principals.values())
        found: list[Credential] = []
        for row in await _all_rows(self._reader, ACCESS_KEY):
            owner = principals.get(row.principal_id)
            if row.state and owner is not None:
                secret = self._box.open(row.secret, principal_id=row.principal_id, access_key_id=row.access_key_id)
                identity = Principal(owner.principal_id, owner.name, bool(owner.is_root))
                found.append(Credential(row.access_key_id, secret, identity))
        return found

    def _tell_rates(self, principals: Iterable[PrincipalRow]) -> None:
        if self._use_rates is None:
            return
        allowances = {row.principal_id: unpack_allowance(row.quotas) for row in principals if row.quotas}
        users = {name: allowance.rate for name, allowance in allowances.items() if allowance.rate != NO_RATE}
        keys = {key: rate for allowance in allowances.values() for key, rate in allowance.keys.items()}
        self._use_rates(users, keys)

    async def follow(self, keyring: KeyRing) -> None:
        """Replace the ring's keys when the database's have changed since they were loaded."""
        if await self._current() != self._revision:
            keyring.replace(await self.load())

    async def _current(self) -> int:
        row = await self._reader.get_row(REVISION, (CREDENTIALS,))
        return 0 if row is None else row.value


async def _all_rows(reader: Reader, table: Table[Any]) -> list[Any]:
    rows: list[Any] = []
    while page := await reader.scan(table, table.key_of(rows[-1]) if rows else None, _PAGE_ROWS):
        rows += page
    return rows
