"""A metadata database whose process dies at a chosen commit: before it, or right after it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from metadata.contract import Metadata, Reader, Transaction, Writer
from metadata.types import ChainHead


class Died(BaseException):
    """The process is gone; whatever would have followed did not happen."""


class _Transaction:
    def __init__(self, inner: Transaction, commit: Callable[[Transaction, ChainHead], None]) -> None:
        self._inner = inner
        self._commit = commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self, head: ChainHead) -> None:
        self._commit(self._inner, head)


class _Writer:
    def __init__(self, inner: Writer, commit: Callable[[Transaction, ChainHead], None]) -> None:
        self._inner = inner
        self._commit = commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        with self._inner.transaction() as transaction:
            yield _Transaction(transaction, self._commit)


class CutMetadata:
    """Dies at the `nth` commit that moves the chain, `after` it when asked; counts commits."""

    def __init__(self, inner: Metadata, nth: int, *, after: bool = False) -> None:
        self._inner = inner
        self._left = nth
        self._after = after
        self.dialect = inner.dialect

    def open_writer(self) -> Writer:
        return _Writer(self._inner.open_writer(), self._commit)

    async def open_reader(self) -> Reader:
        return await self._inner.open_reader()

    def migrate(self) -> None:
        self._inner.migrate()

    def checkpoint(self) -> None:
        self._inner.checkpoint()

    def check(self) -> None:
        self._inner.check()

    def _commit(self, transaction: Transaction, head: ChainHead) -> None:
        self._left -= 1
        if self._left == 0:
            if self._after:
                transaction.commit(head)
            raise Died
        transaction.commit(head)
