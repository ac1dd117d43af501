"""How far each operation of the AWS model is served, derived from THE operations table and a short reviewed one."""

import tomllib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from botocore.loaders import Loader

from gateway.s3.operations import OPERATIONS, SUPERSEDED
from gateway.s3.request import Operation, Target, not_implemented

FILE: Final = Path(__file__).with_name("operations.toml")


class Support(StrEnum):
    """How far an operation is served."""

    FULL = "full"
    PARTIAL = "partial"
    STUB = "stub"
    REFUSED = "501"


class Row(NamedTuple):
    """One operation of the model; `note` says what is missing, empty when nothing is."""

    operation: str
    support: Support
    note: str


def model_operations() -> list[str]:
    """Every operation of the S3 model of the botocore that is installed."""
    return sorted(Loader().load_service_model("s3", "service-2")["operations"])


def read_notes(text: str) -> dict[str, tuple[Support, str]]:
    """The reviewed table: sections `partial` and `stub`, each operation with what is missing."""
    document = tomllib.loads(text)
    kinds = {"partial": Support.PARTIAL, "stub": Support.STUB}
    assert document.keys() <= kinds.keys(), "the table has the sections partial and stub"
    return {name: (kinds[kind], note) for kind, section in document.items() for name, note in section.items()}


def rows(notes: Mapping[str, tuple[Support, str]]) -> list[Row]:
    """Every operation of the model.

    Without a handler it is refused with 501, whatever the notes say; what can only be read or deleted because its PUT
    is refused is a stub.
    """
    served = {operation.name for operation in OPERATIONS if operation.handler is not not_implemented}
    unset = {_configured(each) for each in OPERATIONS if each.method == "PUT" and each.name not in served} - {None}
    stubs = {each.name for each in OPERATIONS if _configured(each) in unset}
    return [_row(name, served, {**dict.fromkeys(stubs, _STUB), **notes}) for name in model_operations()]


_STUB: Final = (Support.STUB, "answered as unset: the PUT is refused")


def _configured(operation: Operation) -> tuple[Target, frozenset[str]] | None:
    """The sub-resource that an operation is about, None for an object, a part or a listing itself."""
    markers = operation.query - {"id"}
    return (operation.target, markers) if markers and "uploadId" not in markers else None


def _row(name: str, served: set[str], notes: Mapping[str, tuple[Support, str]]) -> Row:
    if name in SUPERSEDED:
        return Row(name, Support.REFUSED, SUPERSEDED[name])
    if name not in served:
        return Row(name, Support.REFUSED, "")
    support, note = notes.get(name, (Support.FULL, ""))
    return Row(name, support, note)


def stale(notes: Mapping[str, tuple[Support, str]], found: Sequence[Row]) -> list[str]:
    """Notes about operations that the model does not have, or that are refused altogether."""
    served = {row.operation for row in found if row.support is not Support.REFUSED}
    return sorted(set(notes) - served)
