"""The service itself and the basics of buckets."""

from typing import Final

from gateway.s3.handlers import buckets, control
from gateway.s3.request import BucketUse, Operation, Target, marks
from gateway.s3.schemas import buckets as bucket_documents
from gateway.s3.schemas import control as control_documents

_SERVICE, _BUCKET = Target.SERVICE, Target.BUCKET

# fmt: off
ROWS: Final[tuple[Operation, ...]] = (
    Operation("ListBuckets", "GET", _SERVICE, "s3:ListAllMyBuckets", bucket_use=BucketUse.NONE,
              document=bucket_documents.ListBuckets, handler=buckets.list_buckets),
    Operation("CreateBucket", "PUT", _BUCKET, "s3:CreateBucket", bucket_use=BucketUse.NONE,
              document=bucket_documents.CreateBucket, handler=buckets.create_bucket),
    Operation("HeadBucket", "HEAD", _BUCKET, "s3:ListBucket", handler=buckets.head_bucket),
    Operation("DeleteBucket", "DELETE", _BUCKET, "s3:DeleteBucket", handler=buckets.delete_bucket),
    Operation("GetBucketLocation", "GET", _BUCKET, "s3:GetBucketLocation", query=marks("location"),
              handler=buckets.get_bucket_location),
    # --- the control API
    Operation("ListTagsForResource", "GET", Target.CONTROL, "s3:ListTagsForResource",
              handler=control.list_tags_for_resource),
    Operation("TagResource", "POST", Target.CONTROL, "s3:TagResource",
              document=control_documents.TagResource, handler=control.tag_resource),
    Operation("UntagResource", "DELETE", Target.CONTROL, "s3:UntagResource",
              document=control_documents.UntagResource, handler=control.untag_resource),
)
# fmt: on
