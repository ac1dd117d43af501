"""Changes of principals and access keys, as mutations of the commit log like every other change.

Each raises the `credentials` revision in its own transaction: every process looks at that row and reloads its keys
when it has moved, so a revoked key dies everywhere within seconds. Refusals are of no concern to S3 and therefore no
StorageError.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from metadata.contract import Transaction
from metadata.tables import ACCESS_KEY, BUCKET, PRINCIPAL, Table
from metadata.types import AccessKey, Principal
from tiers.commit.contract import Slot
from tiers.namespace.revisions import CREDENTIALS, Key, RevisionChange

ROOT_PRINCIPAL_ID: Final = sha256(b"isotherm root").hexdigest()
"""The root account's id; in the form of a canonical user id, as clients show it."""

_SCAN_ROWS: Final = 1000


class Refusal(StrEnum):
    """Why a change of accounts was not made."""

    NOT_FOUND = "not found"
    NAME_TAKEN = "name taken"
    EMAIL_TAKEN = "e-mail address taken"
    ID_TAKEN = "id taken"
    CHANGED = "changed meanwhile"
    IS_ROOT = "is the root account"
    OWNS_BUCKETS = "owns buckets"


class AccountRefused(Exception):
    """A change of accounts was refused; nothing changed."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason.value)
        self.reason = reason


class AccountChange(RevisionChange):
    """Base of the mutations of this module."""

    revision = CREDENTIALS


@dataclass(frozen=True)
class EnsureRoot(AccountChange):
    """Make the root account with exactly one active key; earlier keys of the root account are revoked.

    `secret` is the envelope of the secret key. Cost: one pass over the access keys.
    """

    access_key_id: str
    secret: bytes

    def _keys(self) -> Iterable[Key]:
        yield PRINCIPAL, (ROOT_PRINCIPAL_ID,)
        yield ACCESS_KEY, (self.access_key_id,)

    def apply(self, transaction: Transaction, slot: Slot) -> Principal:
        """The root principal. Errors: AccountRefused ID_TAKEN when another user's key has that id."""
        earlier = [row for row in _scan(transaction, ACCESS_KEY) if row.principal_id == ROOT_PRINCIPAL_ID]
        taken = transaction.get(ACCESS_KEY, (self.access_key_id,))
        if taken is not None and taken.principal_id != ROOT_PRINCIPAL_ID:
            raise AccountRefused(Refusal.ID_TAKEN)
        root = transaction.get(PRINCIPAL, (ROOT_PRINCIPAL_ID,)) or Principal(
            ROOT_PRINCIPAL_ID, "root", is_root=1, state=1, created_ms=slot.now_ms
        )
        transaction.put(PRINCIPAL, root)
        for row in earlier:
            if row.access_key_id != self.access_key_id and row.state:
                transaction.put(ACCESS_KEY, row._replace(state=0))
        transaction.put(ACCESS_KEY, AccessKey(self.access_key_id, ROOT_PRINCIPAL_ID, self.secret, 1, slot.now_ms))
        self._raise(transaction)
        return root


@dataclass(frozen=True)
class CreatePrincipal(AccountChange):
    """Add a user. Cost: one pass over the principals, as names and e-mail addresses are unique and not the key."""

    principal_id: str
    name: str
    email: str = ""

    def _keys(self) -> Iterable[Key]:
        yield PRINCIPAL, (self.principal_id,)

    def apply(self, transaction: Transaction, slot: Slot) -> Principal:
        """The new row. Errors: AccountRefused NAME_TAKEN, EMAIL_TAKEN, ID_TAKEN."""
        _refuse_taken(transaction, self.name, self.email, but=self.principal_id)
        if transaction.get(PRINCIPAL, (self.principal_id,)) is not None:
            raise AccountRefused(Refusal.ID_TAKEN)
        row = Principal(self.principal_id, self.name, is_root=0, state=1, created_ms=slot.now_ms, email=self.email)
        transaction.put(PRINCIPAL, row)
        self._raise(transaction)
        return row


@dataclass(frozen=True)
class EditPrincipal(AccountChange):
    """Rename, enable or disable a user, or give it another e-mail address; None leaves a property as it is.

    `seen` is the row the caller saw; when given, any other row is refused. An empty `email` removes the address.
    """

    principal_id: str
    name: str | None = None
    is_enabled: bool | None = None
    seen: Principal | None = None
    email: str | None = None

    def _keys(self) -> Iterable[Key]:
        yield PRINCIPAL, (self.principal_id,)

    def apply(self, transaction: Transaction, slot: Slot) -> Principal:
        """The row as it is now. Errors: AccountRefused NOT_FOUND, CHANGED, IS_ROOT, NAME_TAKEN, EMAIL_TAKEN."""
        del slot
        if self.name is not None or self.email:
            _refuse_taken(transaction, self.name, self.email, but=self.principal_id)
        row = _editable(transaction, self.principal_id, self.seen)
        changed = row._replace(
            name=row.name if self.name is None else self.name,
            state=row.state if self.is_enabled is None else int(self.is_enabled),
            email=row.email if self.email is None else self.email,
        )
        if changed != row:
            transaction.put(PRINCIPAL, changed)
            self._raise(transaction)
        return changed


@dataclass(frozen=True)
class DeletePrincipal(AccountChange):
    """Remove a user and all its access keys.

    Cost: one pass over the access keys and one over the buckets.
    """

    principal_id: str
    seen: Principal | None = None

    def _keys(self) -> Iterable[Key]:
        yield PRINCIPAL, (self.principal_id,)

    def apply(self, transaction: Transaction, slot: Slot) -> None:
        """Errors: AccountRefused NOT_FOUND, CHANGED, IS_ROOT, OWNS_BUCKETS."""
        del slot
        owned = [row for row in _scan(transaction, ACCESS_KEY) if row.principal_id == self.principal_id]
        if any(row.owner_id == self.principal_id for row in _scan(transaction, BUCKET)):
            raise AccountRefused(Refusal.OWNS_BUCKETS)
        _editable(transaction, self.principal_id, self.seen)
        for row in owned:
            transaction.delete(ACCESS_KEY, (row.access_key_id,))
        transaction.delete(PRINCIPAL, (self.principal_id,))
        self._raise(transaction)


@dataclass(frozen=True)
class CreateAccessKey(AccountChange):
    """Give a user an access key; `secret` is the envelope of its secret key."""

    access_key_id: str
    principal_id: str
    secret: bytes

    def _keys(self) -> Iterable[Key]:
        yield PRINCIPAL, (self.principal_id,)
        yield ACCESS_KEY, (self.access_key_id,)

    def apply(self, transaction: Transaction, slot: Slot) -> AccessKey:
        """The new row. Errors: AccountRefused NOT_FOUND (no such user), ID_TAKEN, IS_ROOT.

        The root account's key is set by the configuration alone.
        """
        _editable(transaction, self.principal_id, None)
        if transaction.get(ACCESS_KEY, (self.access_key_id,)) is not None:
            raise AccountRefused(Refusal.ID_TAKEN)
        row = AccessKey(self.access_key_id, self.principal_id, self.secret, 1, slot.now_ms)
        transaction.put(ACCESS_KEY, row)
        self._raise(transaction)
        return row


@dataclass(frozen=True)
class RevokeAccessKey(AccountChange):
    """Revoke an access key for good; revoking it again changes nothing."""

    access_key_id: str

    def _keys(self) -> Iterable[Key]:
        yield ACCESS_KEY, (self.access_key_id,)

    def apply(self, transaction: Transaction, slot: Slot) -> AccessKey:
        """The row as it is now. Errors: AccountRefused NOT_FOUND, IS_ROOT."""
        del slot
        row = transaction.get(ACCESS_KEY, (self.access_key_id,))
        if row is None:
            raise AccountRefused(Refusal.NOT_FOUND)
        if row.principal_id == ROOT_PRINCIPAL_ID:
            raise AccountRefused(Refusal.IS_ROOT)
        if row.state:
            row = row._replace(state=0)
            transaction.put(ACCESS_KEY, row)
            self._raise(transaction)
        return row


def _editable(transaction: Transaction, principal_id: str, seen: Principal | None) -> Principal:
    row = transaction.get(PRINCIPAL, (principal_id,))
    if row is None:
        raise AccountRefused(Refusal.NOT_FOUND)
    if row.is_root:
        raise AccountRefused(Refusal.IS_ROOT)
    if seen is not None and row != seen:
        raise AccountRefused(Refusal.CHANGED)
    return row


def _refuse_taken(transaction: Transaction, name: str | None, email: str | None, *, but: str) -> None:
    for row in _scan(transaction, PRINCIPAL):
        if row.principal_id == but:
            continue
        if row.name == name:
            raise AccountRefused(Refusal.NAME_TAKEN)
        if email and row.email.casefold() == email.casefold():
            raise AccountRefused(Refusal.EMAIL_TAKEN)


def _scan(transaction: Transaction, table: Table[Any]) -> Iterator[Any]:
    """Every row of a table, page by page; comes before the first put of a step."""
    after: tuple[Any, ...] | None = None
    while rows := transaction.scan(table, after, _SCAN_ROWS):
        yield from rows
        if len(rows) < _SCAN_ROWS:
            return
        after = table.key_of(rows[-1])
