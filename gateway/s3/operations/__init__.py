"""THE list of S3 operations: every one of the AWS model, served or not, and how a request is recognised as one.

A row without a handler answers 501 and names itself. Markers are names, never values; a request is an operation only
when the reserved names it carries are exactly that operation's markers. Order of the rows carries no meaning.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import combinations
from typing import Final

from gateway.s3.errors import S3Code, S3Error
from gateway.s3.operations import bucket_documents, multipart, objects, refused, services
from gateway.s3.request import Operation, Target

Recognition = tuple[str, Target, frozenset[str], frozenset[str]]

SUPERSEDED: Final[Mapping[str, str]] = {
    "GetBucketLifecycle": "same request as GetBucketLifecycleConfiguration, deprecated",
    "PutBucketLifecycle": "same request as PutBucketLifecycleConfiguration, deprecated",
    "GetBucketNotification": "same request as GetBucketNotificationConfiguration, deprecated",
    "PutBucketNotification": "same request as PutBucketNotificationConfiguration, deprecated",
    "ListDirectoryBuckets": "served by the control host of directory buckets; here the request is ListBuckets",
    "WriteGetObjectResponse": "served by the host of Object Lambda",
}
"""Operations of the AWS model that have no row, and why."""

OUTSIDE_MODEL: Final[Mapping[str, str]] = {
    "AppendObject": "PutObject with a write offset, which is another operation here",
    "BatchHead": "many HeadObject in one request",
    "PostObject": "the form upload of browsers, which SDKs only sign",
    "ListTagsForResource": "of the s3control model",
    "TagResource": "of the s3control model",
    "UntagResource": "of the s3control model",
}
"""Rows that the AWS model of s3 does not have, and why."""

OPERATIONS: Final[tuple[Operation, ...]] = (
    *services.ROWS, *objects.ROWS, *multipart.ROWS, *bucket_documents.ROWS, *refused.ROWS,
)  # fmt: skip
PREFLIGHT: Final = Operation("Preflight", "OPTIONS", Target.BUCKET, "")
"""What every OPTIONS request is, whatever it names: no row, as it is never authenticated and no markers select it."""

QUERY_MARKERS: Final = frozenset(name for operation in OPERATIONS for name in operation.query)
HEADER_MARKERS: Final = frozenset(name for operation in OPERATIONS for name in operation.headers)
_HEADER_MARKER_FIELDS: Final = {name.encode(): name for name in HEADER_MARKERS}


def recognitions(operation: Operation) -> Iterator[Recognition]:
    """Every combination of reserved names that means this operation."""
    for count in range(len(operation.arguments) + 1):
        for arguments in combinations(sorted(operation.arguments), count):
            query = operation.query.union(arguments)
            yield operation.method, operation.target, query, operation.headers


BY_MARKERS: Final = {way: operation for operation in OPERATIONS for way in recognitions(operation)}
_ANY_METHOD: Final = frozenset(way[1:] for way in BY_MARKERS)


def resolve(method: str, target: Target, *, query: Iterable[str], headers: Container[bytes]) -> Operation | None:
    """The operation whose markers are exactly the reserved names present, None when there is none.

    `query` are parameter names, `headers` lower-case header names. Cost: under 1 us.
    """
    return BY_MARKERS.get((method, target, QUERY_MARKERS.intersection(query), _header_markers(headers)))


def resolve_or_refuse(method: str, target: Target, *, query: Iterable[str], headers: Container[bytes]) -> Operation:
    """The operation of a request.

    Errors: MethodNotAllowed when the same markers mean something under another method, InvalidArgument otherwise: a
    stray marker is refused, never ignored.
    """
    operation = resolve(method, target, query=query, headers=headers)
    if operation is not None:
        return operation
    query_markers, header_markers = QUERY_MARKERS.intersection(query), _header_markers(headers)
    if (target, query_markers, header_markers) in _ANY_METHOD:
        raise S3Error(S3Code.MethodNotAllowed, Method=method, ResourceType=target.name)
    names = ", ".join(sorted(query_markers | header_markers))
    raise S3Error(S3Code.InvalidArgument, "These parameters do not go together.", ArgumentName=names)


def _header_markers(headers: Container[bytes]) -> frozenset[str]:
    return frozenset([name for field, name in _HEADER_MARKER_FIELDS.items() if field in headers])
