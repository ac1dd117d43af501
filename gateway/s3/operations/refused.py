"""Operations that are refused altogether; each is recognised, so that the refusal names it."""

from typing import Final

from gateway.s3.request import Operation, Target, marks

_BUCKET, _OBJECT = Target.BUCKET, Target.OBJECT

# fmt: off
ROWS: Final[tuple[Operation, ...]] = (
    Operation("CreateSession", "GET", _BUCKET, "s3express:CreateSession", query=marks("session")),
    Operation("GetObjectTorrent", "GET", _OBJECT, "s3:GetObjectTorrent", query=marks("torrent")),
    Operation("UpdateObjectEncryption", "PUT", _OBJECT, "s3:UpdateObjectEncryption", query=marks("encryption"),
              needs_checksum=True),
    Operation("PutObjectAnnotation", "PUT", _OBJECT, "s3:PutObjectAnnotation",
              query=marks("annotation", "annotationName")),
    Operation("GetObjectAnnotation", "GET", _OBJECT, "s3:GetObjectAnnotation",
              query=marks("annotation", "annotationName")),
    Operation("DeleteObjectAnnotation", "DELETE", _OBJECT, "s3:DeleteObjectAnnotation",
              query=marks("annotation", "annotationName")),
    Operation("ListObjectAnnotations", "GET", _OBJECT, "s3:ListObjectAnnotations", query=marks("annotation")),
    Operation("GetBucketAbac", "GET", _BUCKET, "s3:GetBucketAbac", query=marks("abac")),
    Operation("PutBucketAbac", "PUT", _BUCKET, "s3:PutBucketAbac", query=marks("abac")),
    Operation("CreateBucketMetadataConfiguration", "POST", _BUCKET, "s3:CreateBucketMetadataTableConfiguration",
              query=marks("metadataConfiguration"), needs_checksum=True),
    Operation("GetBucketMetadataConfiguration", "GET", _BUCKET, "s3:GetBucketMetadataTableConfiguration",
              query=marks("metadataConfiguration")),
    Operation("DeleteBucketMetadataConfiguration", "DELETE", _BUCKET, "s3:DeleteBucketMetadataTableConfiguration",
              query=marks("metadataConfiguration")),
    Operation("CreateBucketMetadataTableConfiguration", "POST", _BUCKET, "s3:CreateBucketMetadataTableConfiguration",
              query=marks("metadataTable"), needs_checksum=True),
    Operation("GetBucketMetadataTableConfiguration", "GET", _BUCKET, "s3:GetBucketMetadataTableConfiguration",
              query=marks("metadataTable")),
    Operation("DeleteBucketMetadataTableConfiguration", "DELETE", _BUCKET,
              "s3:DeleteBucketMetadataTableConfiguration", query=marks("metadataTable")),
    Operation("UpdateBucketMetadataAnnotationTableConfiguration", "PUT", _BUCKET,
              "s3:UpdateBucketMetadataAnnotationTableConfiguration", query=marks("metadataAnnotationTable"),
              needs_checksum=True),
    Operation("UpdateBucketMetadataInventoryTableConfiguration", "PUT", _BUCKET,
              "s3:UpdateBucketMetadataInventoryTableConfiguration", query=marks("metadataInventoryTable"),
              needs_checksum=True),
    Operation("UpdateBucketMetadataJournalTableConfiguration", "PUT", _BUCKET,
              "s3:UpdateBucketMetadataJournalTableConfiguration", query=marks("metadataJournalTable"),
              needs_checksum=True),
)
# fmt: on
