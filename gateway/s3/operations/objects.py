"""Objects: contents, tags, locks, copies, listings."""

from typing import Final

from gateway.s3.handlers import (
    acls,
    append,
    attributes,
    batch,
    copies,
    forms,
    listing,
    locks,
    objects,
    rename,
    select,
    tagging,
)
from gateway.s3.request import BucketUse, Operation, Target, marks
from gateway.s3.schemas import append as append_documents
from gateway.s3.schemas import batch as batch_documents
from gateway.s3.schemas import forms as form_documents
from gateway.s3.schemas import listing as listing_documents
from gateway.s3.schemas import locks as lock_documents
from gateway.s3.schemas import objects as object_documents
from gateway.s3.schemas import rename as rename_documents

_BUCKET, _OBJECT = Target.BUCKET, Target.OBJECT
_FOUND: Final = BucketUse.FOUND
_COPY_SOURCE: Final = marks("x-amz-copy-source")

# fmt: off
ROWS: Final[tuple[Operation, ...]] = (
    Operation("PutObject", "PUT", _OBJECT, "s3:PutObject", is_lane=True, bucket_use=BucketUse.RECALLED,
              document=object_documents.PutObject, handler=objects.put_object),
    Operation("AppendObject", "PUT", _OBJECT, "s3:PutObject", headers=marks("x-amz-write-offset-bytes"),
              document=append_documents.AppendObject, handler=append.append_object),
    Operation("RenameObject", "PUT", _OBJECT, "s3:PutObject", query=marks("renameObject"),
              headers=marks("x-amz-rename-source"), source_action="s3:DeleteObject",
              document=rename_documents.RenameObject, handler=rename.rename_object),
    Operation("BatchHead", "POST", _BUCKET, "s3:GetObject", query=marks("batch-head"),
              document=batch_documents.BatchHead, handler=batch.batch_head),
    Operation("PostObject", "POST", _BUCKET, "s3:PutObject", is_form=True, bucket_use=BucketUse.RECALLED,
              document=form_documents.PostObject, handler=forms.post_object),
    Operation("GetObject", "GET", _OBJECT, "s3:GetObject", version_action="s3:GetObjectVersion", is_lane=True,
              arguments=marks("partNumber"), bucket_use=_FOUND,
              document=object_documents.ReadObject, handler=objects.get_object),
    Operation("HeadObject", "HEAD", _OBJECT, "s3:GetObject", version_action="s3:GetObjectVersion", is_lane=True,
              arguments=marks("partNumber"), bucket_use=_FOUND,
              document=object_documents.ReadObject, handler=objects.head_object),
    Operation("DeleteObject", "DELETE", _OBJECT, "s3:DeleteObject", version_action="s3:DeleteObjectVersion",
              is_lane=True, document=object_documents.DeleteObject, handler=objects.delete_object),
    Operation("DeleteObjects", "POST", _BUCKET, "s3:DeleteObject", query=marks("delete"), needs_checksum=True,
              document=object_documents.DeleteObjects, handler=objects.delete_objects),
    Operation("CopyObject", "PUT", _OBJECT, "s3:PutObject", headers=_COPY_SOURCE, source_action="s3:GetObject",
              document=object_documents.CopyObject, handler=copies.copy_object),
    Operation("GetObjectAttributes", "GET", _OBJECT, "s3:GetObjectAttributes", query=marks("attributes"),
              version_action="s3:GetObjectVersionAttributes", bucket_use=_FOUND,
              document=object_documents.GetObjectAttributes, handler=attributes.get_object_attributes),
    Operation("GetObjectTagging", "GET", _OBJECT, "s3:GetObjectTagging", query=marks("tagging"),
              version_action="s3:GetObjectVersionTagging", bucket_use=_FOUND,
              document=object_documents.NamedVersion, handler=tagging.get_object_tagging),
    Operation("PutObjectTagging", "PUT", _OBJECT, "s3:PutObjectTagging", query=marks("tagging"),
              version_action="s3:PutObjectVersionTagging", needs_checksum=True,
              document=object_documents.PutObjectTagging, handler=tagging.put_object_tagging),
    Operation("DeleteObjectTagging", "DELETE", _OBJECT, "s3:DeleteObjectTagging", query=marks("tagging"),
              version_action="s3:DeleteObjectVersionTagging",
              document=object_documents.NamedVersion, handler=tagging.delete_object_tagging),
    Operation("GetObjectAcl", "GET", _OBJECT, "s3:GetObjectAcl", query=marks("acl"),
              version_action="s3:GetObjectVersionAcl", bucket_use=_FOUND,
              document=object_documents.NamedVersion, handler=acls.get_object_acl),
    Operation("PutObjectAcl", "PUT", _OBJECT, "s3:PutObjectAcl", query=marks("acl"),
              version_action="s3:PutObjectVersionAcl", needs_checksum=True, bucket_use=_FOUND,
              document=object_documents.NamedVersion, handler=acls.put_object_acl),
    Operation("GetObjectRetention", "GET", _OBJECT, "s3:GetObjectRetention", query=marks("retention"),
              bucket_use=_FOUND,
              document=object_documents.NamedVersion, handler=locks.get_object_retention),
    Operation("PutObjectRetention", "PUT", _OBJECT, "s3:PutObjectRetention", query=marks("retention"),
              needs_checksum=True,
              document=lock_documents.PutRetention, handler=locks.put_object_retention),
    Operation("GetObjectLegalHold", "GET", _OBJECT, "s3:GetObjectLegalHold", query=marks("legal-hold"),
              bucket_use=_FOUND,
              document=object_documents.NamedVersion, handler=locks.get_object_legal_hold),
    Operation("PutObjectLegalHold", "PUT", _OBJECT, "s3:PutObjectLegalHold", query=marks("legal-hold"),
              needs_checksum=True,
              document=lock_documents.PutLegalHold, handler=locks.put_object_legal_hold),
    Operation("RestoreObject", "POST", _OBJECT, "s3:RestoreObject", query=marks("restore")),
    Operation("SelectObjectContent", "POST", _OBJECT, "s3:GetObject", query=marks("select", "select-type"),
              bucket_use=_FOUND,
              document=object_documents.NamedVersion, handler=select.select_object_content),
    # --- listing
    Operation("ListObjects", "GET", _BUCKET, "s3:ListBucket", is_lane=True,
              document=listing_documents.ListObjects, handler=listing.list_objects),
    Operation("ListObjectsV2", "GET", _BUCKET, "s3:ListBucket", query=marks("list-type"), is_lane=True,
              document=listing_documents.ListObjectsV2, handler=listing.list_objects_v2),
    Operation("ListObjectVersions", "GET", _BUCKET, "s3:ListBucketVersions", query=marks("versions"),
              document=listing_documents.ListObjectVersions, handler=listing.list_object_versions),
)
# fmt: on
