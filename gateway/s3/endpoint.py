"""One S3 request from bytes to answer: address, operation, authenticate, authorise, decode, handle, encode.

The order is fixed. Nothing of a request acts before it is authenticated, no document is read before it is authorised,
and every exception becomes an answer in one place.
"""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from gateway.http.call import Answer, Call
from gateway.s3 import control, headers, xml
from gateway.s3.cross_origin import answer_preflight
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.forms import open_form
from gateway.s3.operations import PREFLIGHT, resolve_or_refuse
from gateway.s3.request import BucketUse, Operation, Request, Services, Target, not_implemented
from gateway.s3.schemas.answers import XML_TYPE, Headers
from gateway.s3.translation import is_translated, translate
from gateway.s3.unserved import refuse_unserved
from tiers.errors import DeleteMarkerFound, KeyNotFound, StorageError

RETRY_SECONDS = b"1"


class Route(NamedTuple):
    """What the request line and the header names say, before anybody is authenticated."""

    operation: Operation
    bucket_name: str
    key: str
    query: Mapping[str, str]


def find_route(call: Call, services: Services) -> Route:
    """Address and operation of a request. Errors: S3Error; nothing of the request has acted then."""
    target, bucket_name, key = _find_target(call, services)
    call.bucket = bucket_name
    query = parse_query(call.query) if call.query else {}
    if call.method == PREFLIGHT.method:
        operation = PREFLIGHT
    else:
        operation = resolve_or_refuse(call.method, target, query=query, headers=call.fields)
    call.operation = operation.name
    return Route(operation, bucket_name, key, query)


def _find_target(call: Call, services: Services) -> tuple[Target, str, str]:
    """What a request names, and bucket and key of it, empty where there is none."""
    if control.names_control(call, services.addressing):
        return Target.CONTROL, control.resource_bucket(call.raw_path), ""
    bucket_name, key = services.addressing.parse(call.fields.get(b"host", b""), call.raw_path)
    target = Target.OBJECT if key else Target.BUCKET if bucket_name else Target.SERVICE
    return target, bucket_name or "", key or ""


def parse_query(raw: bytes) -> dict[str, str]:
    """Names and values of a query string, percent-decoded once, `+` a space; less what only authentication reads.

    A name that occurs twice is refused by authentication, which sees the raw query. Errors: InvalidURI for bytes that
    are not UTF-8.
    """
    try:
        pairs = [piece.partition("=") for piece in raw.decode().split("&") if piece and piece[:6] != "X-Amz-"]
        if b"%" not in raw and b"+" not in raw:
            return {name: value for name, _, value in pairs}
        return {_decoded(name): _decoded(value) for name, _, value in pairs}
    except UnicodeDecodeError as error:
        raise S3Error(S3Code.InvalidURI) from error


def _decoded(text: str) -> str:
    if "%" in text or "+" in text:
        return unquote_to_bytes(text.replace("+", " ")).decode()
    return text


async def serve(call: Call, services: Services, route: Route | None = None) -> Answer:
    """Answer one S3 request, or raise what `answer_for` translates."""
    operation, bucket_name, key, query = route or find_route(call, services)
    if operation is PREFLIGHT:
        return await answer_preflight(call, services)
    if operation.is_form:
        call, caller, key = await open_form(call, services.authenticator, bucket_name)
    else:
        caller = await services.authenticator.authenticate(call)
    request = Request(call, services, operation, bucket_name, key, query, call.fields, caller)
    refuse_unserved(call.fields, operation.headers)
    if operation.handler is not_implemented:
        await not_implemented(None, request)
    if operation.bucket_use is BucketUse.NAMED:
        await request.authorise(await services.namespace.buckets.get(bucket_name))
    elif operation.bucket_use is BucketUse.RECALLED:
        await request.authorise(await services.namespace.buckets.recall(bucket_name))
    document = await operation.document.decode(request)
    result = await operation.handler(document, request)
    assert request.is_authorised, f"{operation.name} was served without authorisation"
    answer = result.answer()
    return answer if request.passage is None else await request.passage.pace(answer)


def answer_for(error: Exception, call: Call, services: Services) -> Answer:
    """The error document of an exception. What no table knows is logged and answered InternalError without detail."""
    told = translate(error)
    if not is_translated(error) or (isinstance(error, StorageError) and told.code.status >= 500):
        services.log_error(call.request_id, error)
    lines = _error_headers(error, told, call, services)
    if call.method == "HEAD" or told.code.status == 304:
        return Answer(told.code.status, lines, error_code=told.code.name)
    body = _error_document(told, call, services.host_id)
    return Answer(told.code.status, [XML_TYPE, *lines], body, len(body), error_code=told.code.name)


def _error_document(told: S3Error, call: Call, host_id: str) -> bytes:
    elements = dict(told.elements)
    if told.code is S3Code.NoSuchBucket:
        elements.setdefault("BucketName", call.bucket)
    pieces = [xml.element("Code", told.code.name), xml.element("Message", told.message)]
    pieces += [xml.element(name, xml.legible(value)) for name, value in elements.items()]
    pieces.append(xml.element("Resource", call.raw_path.decode("latin-1")))
    pieces.append(f"<RequestId>{xml.escape(call.request_id)}</RequestId><HostId>{xml.escape(host_id)}</HostId>")
    return f"{xml.DECLARATION}<Error>{''.join(pieces)}</Error>".encode()


def _error_headers(error: Exception, told: S3Error, call: Call, services: Services) -> Headers:
    lines: Headers = []
    if told.code.status == 503:
        lines.append((b"retry-after", RETRY_SECONDS))
    if told.code is S3Code.InvalidRange and "ActualObjectSize" in told.elements:
        lines.append((b"content-range", f"bytes */{told.elements['ActualObjectSize']}".encode()))
    if told.code is S3Code.AccessDenied and call.operation == "HeadBucket":
        lines.append((b"x-amz-bucket-region", services.region.encode()))
    if isinstance(error, KeyNotFound) and call.method in {"GET", "HEAD"}:
        lines.append((b"x-amz-delete-marker", b"true" if error.is_delete_marker else b"false"))
        if error.version_id:
            lines.append((b"x-amz-version-id", error.version_id.encode()))
    if isinstance(error, DeleteMarkerFound):
        modified = headers.http_date(error.modified_ms // 1000).encode()
        lines += [(b"x-amz-delete-marker", b"true"), (b"x-amz-version-id", error.version_id.encode())]
        lines += [(b"last-modified", modified), (b"allow", b"DELETE")]
    return lines
