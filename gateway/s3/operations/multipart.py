"""Multipart uploads."""

from typing import Final

from gateway.s3.handlers import copies, multipart
from gateway.s3.request import Operation, Target, marks
from gateway.s3.schemas import multipart as multipart_documents

_BUCKET, _OBJECT = Target.BUCKET, Target.OBJECT
_COPY_SOURCE: Final = marks("x-amz-copy-source")
_PART: Final = marks("partNumber", "uploadId")

# fmt: off
ROWS: Final[tuple[Operation, ...]] = (
    Operation("CreateMultipartUpload", "POST", _OBJECT, "s3:PutObject", query=marks("uploads"),
              document=multipart_documents.CreateMultipartUpload, handler=multipart.create_multipart_upload),
    Operation("UploadPart", "PUT", _OBJECT, "s3:PutObject", query=_PART, is_lane=True,
              document=multipart_documents.UploadPart, handler=multipart.upload_part),
    Operation("UploadPartCopy", "PUT", _OBJECT, "s3:PutObject", query=_PART, headers=_COPY_SOURCE,
              source_action="s3:GetObject",
              document=multipart_documents.UploadPartCopy, handler=copies.upload_part_copy),
    Operation("CompleteMultipartUpload", "POST", _OBJECT, "s3:PutObject", query=marks("uploadId"),
              document=multipart_documents.CompleteMultipartUpload, handler=multipart.complete_multipart_upload),
    Operation("AbortMultipartUpload", "DELETE", _OBJECT, "s3:AbortMultipartUpload", query=marks("uploadId"),
              document=multipart_documents.NamedUpload, handler=multipart.abort_multipart_upload),
    Operation("ListParts", "GET", _OBJECT, "s3:ListMultipartUploadParts", query=marks("uploadId"),
              document=multipart_documents.ListParts, handler=multipart.list_parts),
    Operation("ListMultipartUploads", "GET", _BUCKET, "s3:ListBucketMultipartUploads", query=marks("uploads"),
              document=multipart_documents.ListMultipartUploads, handler=multipart.list_multipart_uploads),
)
# fmt: on
