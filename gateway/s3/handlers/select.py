"""SelectObjectContent: the records of an object that a query wants."""

from datetime import UTC, datetime

from gateway.s3.errors import S3Code, S3Error
from gateway.s3.handlers.encryption import key_of
from gateway.s3.handlers.objects import find_version
from gateway.s3.request import Request
from gateway.s3.schemas.objects import NamedVersion
from gateway.s3.schemas.select import Selected, SelectObjectContent
from gateway.s3.select.job import Job
from gateway.s3.select.process import is_installed
from gateway.s3.select.refusals import SelectRefused


async def select_object_content(named: NamedVersion, request: Request) -> Selected:
    """Run the query in a worker; what is wrong with it is told before the answer begins.

    Errors: NotImplemented without the engine; AWS's codes for queries and objects that cannot be read.
    """
    found = await find_version(request, named.version_id)
    if not is_installed():
        raise S3Error(
            S3Code.NotImplemented, "SelectObjectContent needs Isotherm to be installed with the extra select."
        )
    document = await SelectObjectContent.decode(request)
    version = found.version
    content_key = await key_of(request, version, document.customer)
    now = datetime.fromtimestamp(request.services.clock(), UTC).replace(tzinfo=None).isoformat()
    content = await request.namespace.objects.open(version, 0, version.size, content_key)
    job = Job(document.expression, document.source, document.output, now)
    try:
        stream = await request.services.selection.start(job, content, has_progress=document.has_progress)
    except SelectRefused as error:
        raise S3Error(S3Code[error.code], error.message) from error
    return Selected(stream)
