"""THE list of S3 operations: every one of the AWS model, served or not, and how a request is recognised as one.

A row without a handler answers 501 and names itself. Markers are names, never values; a request is an operation only
when the reserved names it carries are exactly that operation's markers. Order in the tuple carries no meaning.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import combinations
from typing import Final

from gateway.s3.errors import S3Code, S3Error
from gateway.s3.handlers import (
    attributes,
    bucket_config,
    buckets,
    copies,
    listing,
    multipart,
    objects,
    tagging,
)
from gateway.s3.request import BucketUse, Operation, Target
from gateway.s3.schemas import buckets as bucket_documents
from gateway.s3.schemas import listing as listing_documents
from gateway.s3.schemas import multipart as multipart_documents
from gateway.s3.schemas import objects as object_documents

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


def _names(*names: str) -> frozenset[str]:
    return frozenset(names)


_SERVICE, _BUCKET, _OBJECT = Target.SERVICE, Target.BUCKET, Target.OBJECT
_FOUND: Final = BucketUse.FOUND
_COPY_SOURCE: Final = _names("x-amz-copy-source")
_PART: Final = _names("partNumber", "uploadId")

# fmt: off
OPERATIONS: Final[tuple[Operation, ...]] = (
    # --- service and bucket
    Operation("ListBuckets", "GET", _SERVICE, "s3:ListAllMyBuckets", bucket_use=BucketUse.NONE,
              document=bucket_documents.ListBuckets, handler=buckets.list_buckets),
    Operation("CreateBucket", "PUT", _BUCKET, "s3:CreateBucket", bucket_use=BucketUse.NONE,
              document=bucket_documents.CreateBucket, handler=buckets.create_bucket),
    Operation("HeadBucket", "HEAD", _BUCKET, "s3:ListBucket", handler=buckets.head_bucket),
    Operation("DeleteBucket", "DELETE", _BUCKET, "s3:DeleteBucket", handler=buckets.delete_bucket),
    Operation("GetBucketLocation", "GET", _BUCKET, "s3:GetBucketLocation", query=_names("location"),
              handler=buckets.get_bucket_location),
    Operation("CreateSession", "GET", _BUCKET, "s3express:CreateSession", query=_names("session")),
    # --- objects
    Operation("PutObject", "PUT", _OBJECT, "s3:PutObject", is_lane=True, bucket_use=BucketUse.RECALLED,
              document=object_documents.PutObject, handler=objects.put_object),
    Operation("GetObject", "GET", _OBJECT, "s3:GetObject", version_action="s3:GetObjectVersion", is_lane=True,
              arguments=_names("partNumber"), bucket_use=_FOUND,
              document=object_documents.ReadObject, handler=objects.get_object),
    Operation("HeadObject", "HEAD", _OBJECT, "s3:GetObject", version_action="s3:GetObjectVersion", is_lane=True,
              arguments=_names("partNumber"), bucket_use=_FOUND,
              document=object_documents.ReadObject, handler=objects.head_object),
    Operation("DeleteObject", "DELETE", _OBJECT, "s3:DeleteObject", version_action="s3:DeleteObjectVersion",
              is_lane=True, document=object_documents.DeleteObject, handler=objects.delete_object),
    Operation("DeleteObjects", "POST", _BUCKET, "s3:DeleteObject", query=_names("delete"), needs_checksum=True,
              document=object_documents.DeleteObjects, handler=objects.delete_objects),
    Operation("CopyObject", "PUT", _OBJECT, "s3:PutObject", headers=_COPY_SOURCE, source_action="s3:GetObject",
              document=object_documents.CopyObject, handler=copies.copy_object),
    Operation("GetObjectAttributes", "GET", _OBJECT, "s3:GetObjectAttributes", query=_names("attributes"),
              version_action="s3:GetObjectVersionAttributes", bucket_use=_FOUND,
              document=object_documents.GetObjectAttributes, handler=attributes.get_object_attributes),
    Operation("GetObjectTagging", "GET", _OBJECT, "s3:GetObjectTagging", query=_names("tagging"),
              version_action="s3:GetObjectVersionTagging", bucket_use=_FOUND,
              document=object_documents.NamedVersion, handler=tagging.get_object_tagging),
    Operation("PutObjectTagging", "PUT", _OBJECT, "s3:PutObjectTagging", query=_names("tagging"),
              version_action="s3:PutObjectVersionTagging", needs_checksum=True,
              document=object_documents.PutObjectTagging, handler=tagging.put_object_tagging),
    Operation("DeleteObjectTagging", "DELETE", _OBJECT, "s3:DeleteObjectTagging", query=_names("tagging"),
              version_action="s3:DeleteObjectVersionTagging",
              document=object_documents.NamedVersion, handler=tagging.delete_object_tagging),
    Operation("GetObjectAcl", "GET", _OBJECT, "s3:GetObjectAcl", query=_names("acl"),
              version_action="s3:GetObjectVersionAcl", bucket_use=_FOUND,
              document=object_documents.NamedVersion, handler=objects.get_object_acl),
    Operation("PutObjectAcl", "PUT", _OBJECT, "s3:PutObjectAcl", query=_names("acl"),
              version_action="s3:PutObjectVersionAcl", needs_checksum=True),
    Operation("GetObjectRetention", "GET", _OBJECT, "s3:GetObjectRetention", query=_names("retention"),
              bucket_use=_FOUND,
              document=object_documents.NamedVersion, handler=objects.get_object_retention),
    Operation("PutObjectRetention", "PUT", _OBJECT, "s3:PutObjectRetention", query=_names("retention"),
              needs_checksum=True),
    Operation("GetObjectLegalHold", "GET", _OBJECT, "s3:GetObjectLegalHold", query=_names("legal-hold"),
              bucket_use=_FOUND,
              document=object_documents.NamedVersion, handler=objects.get_object_legal_hold),
    Operation("PutObjectLegalHold", "PUT", _OBJECT, "s3:PutObjectLegalHold", query=_names("legal-hold"),
              needs_checksum=True),
    Operation("GetObjectTorrent", "GET", _OBJECT, "s3:GetObjectTorrent", query=_names("torrent")),
    Operation("RestoreObject", "POST", _OBJECT, "s3:RestoreObject", query=_names("restore")),
    Operation("SelectObjectContent", "POST", _OBJECT, "s3:GetObject", query=_names("select", "select-type")),
    Operation("RenameObject", "PUT", _OBJECT, "s3:PutObject", query=_names("renameObject"),
              headers=_names("x-amz-rename-source"), source_action="s3:DeleteObject"),
    Operation("UpdateObjectEncryption", "PUT", _OBJECT, "s3:UpdateObjectEncryption", query=_names("encryption"),
              needs_checksum=True),
    Operation("PutObjectAnnotation", "PUT", _OBJECT, "s3:PutObjectAnnotation",
              query=_names("annotation", "annotationName")),
    Operation("GetObjectAnnotation", "GET", _OBJECT, "s3:GetObjectAnnotation",
              query=_names("annotation", "annotationName")),
    Operation("DeleteObjectAnnotation", "DELETE", _OBJECT, "s3:DeleteObjectAnnotation",
              query=_names("annotation", "annotationName")),
    Operation("ListObjectAnnotations", "GET", _OBJECT, "s3:ListObjectAnnotations", query=_names("annotation")),
    # --- listing
    Operation("ListObjects", "GET", _BUCKET, "s3:ListBucket", is_lane=True,
              document=listing_documents.ListObjects, handler=listing.list_objects),
    Operation("ListObjectsV2", "GET", _BUCKET, "s3:ListBucket", query=_names("list-type"), is_lane=True,
              document=listing_documents.ListObjectsV2, handler=listing.list_objects_v2),
    Operation("ListObjectVersions", "GET", _BUCKET, "s3:ListBucketVersions", query=_names("versions"),
              document=listing_documents.ListObjectVersions, handler=listing.list_object_versions),
    # --- multipart
    Operation("CreateMultipartUpload", "POST", _OBJECT, "s3:PutObject", query=_names("uploads"),
              document=multipart_documents.CreateMultipartUpload, handler=multipart.create_multipart_upload),
    Operation("UploadPart", "PUT", _OBJECT, "s3:PutObject", query=_PART, is_lane=True,
              document=multipart_documents.UploadPart, handler=multipart.upload_part),
    Operation("UploadPartCopy", "PUT", _OBJECT, "s3:PutObject", query=_PART, headers=_COPY_SOURCE,
              source_action="s3:GetObject",
              document=multipart_documents.UploadPartCopy, handler=copies.upload_part_copy),
    Operation("CompleteMultipartUpload", "POST", _OBJECT, "s3:PutObject", query=_names("uploadId"),
              document=multipart_documents.CompleteMultipartUpload, handler=multipart.complete_multipart_upload),
    Operation("AbortMultipartUpload", "DELETE", _OBJECT, "s3:AbortMultipartUpload", query=_names("uploadId"),
              document=multipart_documents.NamedUpload, handler=multipart.abort_multipart_upload),
    Operation("ListParts", "GET", _OBJECT, "s3:ListMultipartUploadParts", query=_names("uploadId"),
              document=multipart_documents.ListParts, handler=multipart.list_parts),
    Operation("ListMultipartUploads", "GET", _BUCKET, "s3:ListBucketMultipartUploads", query=_names("uploads"),
              document=multipart_documents.ListMultipartUploads, handler=multipart.list_multipart_uploads),
    # --- sub-resources of a bucket that are stored
    Operation("GetBucketVersioning", "GET", _BUCKET, "s3:GetBucketVersioning", query=_names("versioning"),
              handler=bucket_config.get_bucket_versioning),
    Operation("PutBucketVersioning", "PUT", _BUCKET, "s3:PutBucketVersioning", query=_names("versioning"),
              needs_checksum=True,
              document=bucket_documents.PutBucketVersioning, handler=bucket_config.put_bucket_versioning),
    Operation("GetBucketTagging", "GET", _BUCKET, "s3:GetBucketTagging", query=_names("tagging"),
              handler=bucket_config.get_bucket_tagging),
    Operation("PutBucketTagging", "PUT", _BUCKET, "s3:PutBucketTagging", query=_names("tagging"), needs_checksum=True,
              document=bucket_documents.PutBucketTagging, handler=bucket_config.put_bucket_tagging),
    Operation("DeleteBucketTagging", "DELETE", _BUCKET, "s3:PutBucketTagging", query=_names("tagging"),
              handler=bucket_config.delete_bucket_tagging),
    # --- sub-resources of a bucket that nobody can set yet: reads answer "unset", deletes succeed, puts are refused
    Operation("GetBucketPolicy", "GET", _BUCKET, "s3:GetBucketPolicy", query=_names("policy"),
              handler=bucket_config.get_bucket_policy),
    Operation("PutBucketPolicy", "PUT", _BUCKET, "s3:PutBucketPolicy", query=_names("policy"), needs_checksum=True),
    Operation("DeleteBucketPolicy", "DELETE", _BUCKET, "s3:DeleteBucketPolicy", query=_names("policy"),
              handler=bucket_config.delete_unset),
    Operation("GetBucketPolicyStatus", "GET", _BUCKET, "s3:GetBucketPolicyStatus", query=_names("policyStatus"),
              handler=bucket_config.get_bucket_policy_status),
    Operation("GetPublicAccessBlock", "GET", _BUCKET, "s3:GetBucketPublicAccessBlock",
              query=_names("publicAccessBlock"), handler=bucket_config.get_public_access_block),
    Operation("PutPublicAccessBlock", "PUT", _BUCKET, "s3:PutBucketPublicAccessBlock",
              query=_names("publicAccessBlock"), needs_checksum=True),
    Operation("DeletePublicAccessBlock", "DELETE", _BUCKET, "s3:PutBucketPublicAccessBlock",
              query=_names("publicAccessBlock")),
    Operation("GetBucketOwnershipControls", "GET", _BUCKET, "s3:GetBucketOwnershipControls",
              query=_names("ownershipControls"), handler=bucket_config.get_bucket_ownership_controls),
    Operation("PutBucketOwnershipControls", "PUT", _BUCKET, "s3:PutBucketOwnershipControls",
              query=_names("ownershipControls"), needs_checksum=True),
    Operation("DeleteBucketOwnershipControls", "DELETE", _BUCKET, "s3:PutBucketOwnershipControls",
              query=_names("ownershipControls")),
    Operation("GetBucketAcl", "GET", _BUCKET, "s3:GetBucketAcl", query=_names("acl"),
              handler=bucket_config.get_bucket_acl),
    Operation("PutBucketAcl", "PUT", _BUCKET, "s3:PutBucketAcl", query=_names("acl"), needs_checksum=True),
    Operation("GetBucketCors", "GET", _BUCKET, "s3:GetBucketCORS", query=_names("cors"),
              handler=bucket_config.get_bucket_cors),
    Operation("PutBucketCors", "PUT", _BUCKET, "s3:PutBucketCORS", query=_names("cors"), needs_checksum=True),
    Operation("DeleteBucketCors", "DELETE", _BUCKET, "s3:PutBucketCORS", query=_names("cors"),
              handler=bucket_config.delete_unset),
    Operation("GetBucketEncryption", "GET", _BUCKET, "s3:GetEncryptionConfiguration", query=_names("encryption"),
              handler=bucket_config.get_bucket_encryption),
    Operation("PutBucketEncryption", "PUT", _BUCKET, "s3:PutEncryptionConfiguration", query=_names("encryption"),
              needs_checksum=True),
    Operation("DeleteBucketEncryption", "DELETE", _BUCKET, "s3:PutEncryptionConfiguration", query=_names("encryption"),
              handler=bucket_config.delete_unset),
    Operation("GetBucketLifecycleConfiguration", "GET", _BUCKET, "s3:GetLifecycleConfiguration",
              query=_names("lifecycle"), handler=bucket_config.get_bucket_lifecycle),
    Operation("PutBucketLifecycleConfiguration", "PUT", _BUCKET, "s3:PutLifecycleConfiguration",
              query=_names("lifecycle"), needs_checksum=True),
    Operation("DeleteBucketLifecycle", "DELETE", _BUCKET, "s3:PutLifecycleConfiguration", query=_names("lifecycle"),
              handler=bucket_config.delete_unset),
    Operation("GetObjectLockConfiguration", "GET", _BUCKET, "s3:GetBucketObjectLockConfiguration",
              query=_names("object-lock"), handler=bucket_config.get_object_lock_configuration),
    Operation("PutObjectLockConfiguration", "PUT", _BUCKET, "s3:PutBucketObjectLockConfiguration",
              query=_names("object-lock"), needs_checksum=True),
    Operation("GetBucketNotificationConfiguration", "GET", _BUCKET, "s3:GetBucketNotification",
              query=_names("notification"), handler=bucket_config.get_bucket_notification),
    Operation("PutBucketNotificationConfiguration", "PUT", _BUCKET, "s3:PutBucketNotification",
              query=_names("notification")),
    Operation("GetBucketLogging", "GET", _BUCKET, "s3:GetBucketLogging", query=_names("logging"),
              handler=bucket_config.get_bucket_logging),
    Operation("PutBucketLogging", "PUT", _BUCKET, "s3:PutBucketLogging", query=_names("logging"), needs_checksum=True),
    Operation("GetBucketRequestPayment", "GET", _BUCKET, "s3:GetBucketRequestPayment", query=_names("requestPayment"),
              handler=bucket_config.get_bucket_request_payment),
    Operation("PutBucketRequestPayment", "PUT", _BUCKET, "s3:PutBucketRequestPayment", query=_names("requestPayment"),
              needs_checksum=True),
    Operation("GetBucketAccelerateConfiguration", "GET", _BUCKET, "s3:GetAccelerateConfiguration",
              query=_names("accelerate"), handler=bucket_config.get_bucket_accelerate),
    Operation("PutBucketAccelerateConfiguration", "PUT", _BUCKET, "s3:PutAccelerateConfiguration",
              query=_names("accelerate")),
    Operation("GetBucketReplication", "GET", _BUCKET, "s3:GetReplicationConfiguration", query=_names("replication"),
              handler=bucket_config.get_bucket_replication),
    Operation("PutBucketReplication", "PUT", _BUCKET, "s3:PutReplicationConfiguration", query=_names("replication"),
              needs_checksum=True),
    Operation("DeleteBucketReplication", "DELETE", _BUCKET, "s3:PutReplicationConfiguration",
              query=_names("replication"), handler=bucket_config.delete_unset),
    Operation("GetBucketWebsite", "GET", _BUCKET, "s3:GetBucketWebsite", query=_names("website"),
              handler=bucket_config.get_bucket_website),
    Operation("PutBucketWebsite", "PUT", _BUCKET, "s3:PutBucketWebsite", query=_names("website"), needs_checksum=True),
    Operation("DeleteBucketWebsite", "DELETE", _BUCKET, "s3:DeleteBucketWebsite", query=_names("website"),
              handler=bucket_config.delete_unset),
    # --- configurations by id
    Operation("ListBucketInventoryConfigurations", "GET", _BUCKET, "s3:GetInventoryConfiguration",
              query=_names("inventory"), handler=bucket_config.list_inventory),
    Operation("GetBucketInventoryConfiguration", "GET", _BUCKET, "s3:GetInventoryConfiguration",
              query=_names("inventory", "id"), handler=bucket_config.no_configuration),
    Operation("PutBucketInventoryConfiguration", "PUT", _BUCKET, "s3:PutInventoryConfiguration",
              query=_names("inventory", "id")),
    Operation("DeleteBucketInventoryConfiguration", "DELETE", _BUCKET, "s3:PutInventoryConfiguration",
              query=_names("inventory", "id"), handler=bucket_config.no_configuration),
    Operation("ListBucketIntelligentTieringConfigurations", "GET", _BUCKET, "s3:GetIntelligentTieringConfiguration",
              query=_names("intelligent-tiering"), handler=bucket_config.list_intelligent_tiering),
    Operation("GetBucketIntelligentTieringConfiguration", "GET", _BUCKET, "s3:GetIntelligentTieringConfiguration",
              query=_names("intelligent-tiering", "id"), handler=bucket_config.no_configuration),
    Operation("PutBucketIntelligentTieringConfiguration", "PUT", _BUCKET, "s3:PutIntelligentTieringConfiguration",
              query=_names("intelligent-tiering", "id")),
    Operation("DeleteBucketIntelligentTieringConfiguration", "DELETE", _BUCKET,
              "s3:PutIntelligentTieringConfiguration", query=_names("intelligent-tiering", "id"),
              handler=bucket_config.no_configuration),
    Operation("ListBucketAnalyticsConfigurations", "GET", _BUCKET, "s3:GetAnalyticsConfiguration",
              query=_names("analytics"), handler=bucket_config.list_analytics),
    Operation("GetBucketAnalyticsConfiguration", "GET", _BUCKET, "s3:GetAnalyticsConfiguration",
              query=_names("analytics", "id"), handler=bucket_config.no_configuration),
    Operation("PutBucketAnalyticsConfiguration", "PUT", _BUCKET, "s3:PutAnalyticsConfiguration",
              query=_names("analytics", "id")),
    Operation("DeleteBucketAnalyticsConfiguration", "DELETE", _BUCKET, "s3:PutAnalyticsConfiguration",
              query=_names("analytics", "id"), handler=bucket_config.no_configuration),
    Operation("ListBucketMetricsConfigurations", "GET", _BUCKET, "s3:GetMetricsConfiguration",
              query=_names("metrics"), handler=bucket_config.list_metrics),
    Operation("GetBucketMetricsConfiguration", "GET", _BUCKET, "s3:GetMetricsConfiguration",
              query=_names("metrics", "id"), handler=bucket_config.no_configuration),
    Operation("PutBucketMetricsConfiguration", "PUT", _BUCKET, "s3:PutMetricsConfiguration",
              query=_names("metrics", "id")),
    Operation("DeleteBucketMetricsConfiguration", "DELETE", _BUCKET, "s3:PutMetricsConfiguration",
              query=_names("metrics", "id"), handler=bucket_config.no_configuration),
    # --- refused altogether
    Operation("GetBucketAbac", "GET", _BUCKET, "s3:GetBucketAbac", query=_names("abac")),
    Operation("PutBucketAbac", "PUT", _BUCKET, "s3:PutBucketAbac", query=_names("abac")),
    Operation("CreateBucketMetadataConfiguration", "POST", _BUCKET, "s3:CreateBucketMetadataTableConfiguration",
              query=_names("metadataConfiguration"), needs_checksum=True),
    Operation("GetBucketMetadataConfiguration", "GET", _BUCKET, "s3:GetBucketMetadataTableConfiguration",
              query=_names("metadataConfiguration")),
    Operation("DeleteBucketMetadataConfiguration", "DELETE", _BUCKET, "s3:DeleteBucketMetadataTableConfiguration",
              query=_names("metadataConfiguration")),
    Operation("CreateBucketMetadataTableConfiguration", "POST", _BUCKET, "s3:CreateBucketMetadataTableConfiguration",
              query=_names("metadataTable"), needs_checksum=True),
    Operation("GetBucketMetadataTableConfiguration", "GET", _BUCKET, "s3:GetBucketMetadataTableConfiguration",
              query=_names("metadataTable")),
    Operation("DeleteBucketMetadataTableConfiguration", "DELETE", _BUCKET,
              "s3:DeleteBucketMetadataTableConfiguration", query=_names("metadataTable")),
    Operation("UpdateBucketMetadataAnnotationTableConfiguration", "PUT", _BUCKET,
              "s3:UpdateBucketMetadataAnnotationTableConfiguration", query=_names("metadataAnnotationTable"),
              needs_checksum=True),
    Operation("UpdateBucketMetadataInventoryTableConfiguration", "PUT", _BUCKET,
              "s3:UpdateBucketMetadataInventoryTableConfiguration", query=_names("metadataInventoryTable"),
              needs_checksum=True),
    Operation("UpdateBucketMetadataJournalTableConfiguration", "PUT", _BUCKET,
              "s3:UpdateBucketMetadataJournalTableConfiguration", query=_names("metadataJournalTable"),
              needs_checksum=True),
)
# fmt: on

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
