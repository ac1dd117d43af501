"""The operations table: complete, unambiguous, and in step with its handlers."""

import inspect
from collections.abc import Callable
from itertools import combinations
from types import ModuleType

import pytest
from botocore.session import Session

from gateway.s3.errors import S3Code, S3Error
from gateway.s3.handlers import (
    append,
    attributes,
    batch,
    bucket_config,
    buckets,
    by_id,
    control,
    copies,
    cors,
    forms,
    lifecycle,
    listing,
    locks,
    multipart,
    objects,
    rename,
    select,
    stubs,
    tagging,
)
from gateway.s3.operations import (
    BY_MARKERS,
    HEADER_MARKERS,
    OPERATIONS,
    OUTSIDE_MODEL,
    QUERY_MARKERS,
    SUPERSEDED,
    recognitions,
    resolve,
    resolve_or_refuse,
)
from gateway.s3.request import BucketUse, Nothing, Target, not_implemented

HANDLERS = (
    *(attributes, bucket_config, buckets, by_id, control, copies, cors, forms, listing, multipart, objects, stubs),
    *(append, batch, lifecycle, locks, rename, select, tagging),
)
METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH")
LANE = {"GetObject", "HeadObject", "PutObject", "UploadPart", "ListObjects", "ListObjectsV2", "DeleteObject"}

UNSERVED = {
    *("CreateSession", "GetObjectTorrent", "RestoreObject"),
    "UpdateObjectEncryption",
    *("PutObjectAnnotation", "GetObjectAnnotation", "DeleteObjectAnnotation", "ListObjectAnnotations"),
    *("PutBucketReplication",),
    "PutBucketWebsite",
    *("PutBucketAnalyticsConfiguration", "PutBucketMetricsConfiguration", "GetBucketAbac", "PutBucketAbac"),
    *("CreateBucketMetadataConfiguration", "GetBucketMetadataConfiguration", "DeleteBucketMetadataConfiguration"),
    *("CreateBucketMetadataTableConfiguration", "GetBucketMetadataTableConfiguration"),
    *("DeleteBucketMetadataTableConfiguration", "UpdateBucketMetadataAnnotationTableConfiguration"),
    *("UpdateBucketMetadataInventoryTableConfiguration", "UpdateBucketMetadataJournalTableConfiguration"),
}

MODEL = Session().get_service_model("s3")


def as_fields(names: frozenset[str] | set[str]) -> set[bytes]:
    return {name.encode() for name in names}


def test_no_two_rows_can_answer_one_request() -> None:
    assert len(BY_MARKERS) == sum(len(list(recognitions(operation))) for operation in OPERATIONS)
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)


def test_names_equal_the_service_model_less_the_superseded() -> None:
    names = {operation.name for operation in OPERATIONS}
    assert names - set(OUTSIDE_MODEL) == set(MODEL.operation_names) - set(SUPERSEDED)
    assert set(OUTSIDE_MODEL) <= names - set(MODEL.operation_names)
    assert set(SUPERSEDED) <= set(MODEL.operation_names)


def test_rows_recognise_what_the_model_sends() -> None:
    """Method, target and markers of every row are those of botocore's request for it."""
    for operation in OPERATIONS:
        if operation.name in OUTSIDE_MODEL:
            continue
        model = MODEL.operation_model(operation.name)
        path, _, query = model.http["requestUri"].partition("?")
        target = {"/": Target.SERVICE, "/{Bucket}": Target.BUCKET, "/{Bucket}/{Key+}": Target.OBJECT}[path]
        names = {piece.partition("=")[0] for piece in query.split("&") if piece}
        headers: set[str] = set()
        shape = model.input_shape
        for name in shape.required_members if shape else ():
            place = shape.members[name].serialization if shape else {}
            if place.get("location") in {"querystring", "header"}:
                (names if place["location"] == "querystring" else headers).add(place["name"])
        found = resolve(model.http["method"], target, query=names, headers=as_fields(headers))
        assert found is operation, operation.name


def test_every_pair_of_markers_that_no_row_declares_together_is_refused() -> None:
    reserved = [("q", name) for name in sorted(QUERY_MARKERS)] + [("h", name) for name in sorted(HEADER_MARKERS)]
    refused = 0
    for pair in combinations(reserved, 2):
        query = {name for kind, name in pair if kind == "q"}
        headers = {name for kind, name in pair if kind == "h"}
        for method in METHODS:
            for target in Target:
                found = resolve(method, target, query=query, headers=as_fields(headers))
                if found is None:
                    refused += 1
                else:
                    assert query <= found.query | found.arguments
                    assert headers == found.headers
    assert refused > 20_000


def test_every_stray_marker_is_refused_beside_a_plain_operation() -> None:
    """One marker more than an operation has never leaves that operation."""
    for operation in OPERATIONS:
        for stray in QUERY_MARKERS - operation.query - operation.arguments:
            found = resolve(
                operation.method,
                operation.target,
                query=operation.query | {stray},
                headers=as_fields(operation.headers),
            )
            assert found is not operation, (operation.name, stray)


@pytest.mark.parametrize(
    ("method", "target", "query", "headers", "code"),
    [
        ("PUT", Target.OBJECT, {"uploadId"}, set(), S3Code.MethodNotAllowed),
        ("DELETE", Target.BUCKET, {"versions"}, set(), S3Code.MethodNotAllowed),
        ("PUT", Target.OBJECT, {"tagging"}, {b"x-amz-copy-source"}, S3Code.InvalidArgument),
        ("GET", Target.OBJECT, {"partNumber", "acl"}, set(), S3Code.InvalidArgument),
        ("GET", Target.SERVICE, {"location"}, set(), S3Code.InvalidArgument),
        ("POST", Target.OBJECT, set(), set(), S3Code.MethodNotAllowed),
        ("HEAD", Target.BUCKET, {"location"}, set(), S3Code.MethodNotAllowed),
    ],
)
def test_refusals(method: str, target: Target, query: set[str], headers: set[bytes], code: S3Code) -> None:
    with pytest.raises(S3Error) as caught:
        resolve_or_refuse(method, target, query=query, headers=headers)
    assert caught.value.code is code


def test_unknown_parameters_and_arguments_do_not_matter() -> None:
    for method, query, name in (
        ("GET", {"x-id", "versionId", "foo"}, "GetObject"),
        ("GET", {"partNumber"}, "GetObject"),
        ("HEAD", {"partNumber", "versionId"}, "HeadObject"),
    ):
        assert resolve_or_refuse(method, Target.OBJECT, query=query, headers=()).name == name


def as_parameters(handler: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(handler, eval_str=True).parameters.values())


def test_every_row_has_an_action_and_every_handler_a_row() -> None:
    assert all(operation.action.partition(":")[0] in {"s3", "s3express"} for operation in OPERATIONS)
    rows = [operation.handler for operation in OPERATIONS]
    assert [handler for module in HANDLERS for handler in module_handlers(module) if handler not in rows] == []


def module_handlers(module: ModuleType) -> list[Callable[..., object]]:
    found = []
    for name, value in vars(module).items():
        if name.startswith("_") or not inspect.iscoroutinefunction(value):
            continue
        parameters = as_parameters(value)
        if len(parameters) == 2 and parameters[0].name in {"document", "_document"}:
            found.append(value)
    return found


def test_rows_name_the_document_their_handler_takes() -> None:
    for operation in OPERATIONS:
        if operation.handler is not not_implemented:
            assert as_parameters(operation.handler)[0].annotation is operation.document, operation.name


def test_unserved_rows_equal_the_published_list() -> None:
    assert {operation.name for operation in OPERATIONS if operation.handler is not_implemented} == UNSERVED
    assert all(operation.document is Nothing for operation in OPERATIONS if operation.name in UNSERVED)


def test_lane_and_checksums() -> None:
    assert {operation.name for operation in OPERATIONS if operation.is_lane} == LANE
    needed = {
        name
        for name in MODEL.operation_names
        if MODEL.operation_model(name).http_checksum.get("requestChecksumRequired")
        or MODEL.operation_model(name).http_checksum_required
    }
    assert {operation.name for operation in OPERATIONS if operation.needs_checksum} == needed - set(SUPERSEDED)


def test_copies_name_what_they_need_of_their_source() -> None:
    sourced = {operation.name for operation in OPERATIONS if operation.headers} - {"AppendObject"}
    assert sourced == {operation.name for operation in OPERATIONS if operation.source_action}
    reading = {operation.name for operation in OPERATIONS if operation.bucket_use is BucketUse.FOUND}
    reading -= {"PutObjectAcl", "SelectObjectContent"}  # read their documents once the version's list allowed it
    assert all(operation.method in {"GET", "HEAD"} for operation in OPERATIONS if operation.name in reading)
