"""The S3 actions a bucket policy may name.

The list is closed: a wildcard means exactly the actions of this list, and an action outside it is refused.
"""

from functools import lru_cache
from typing import Final

from gateway.auth.policy.malformed import MalformedPolicy
from gateway.auth.policy.patterns import Glob, Wild, tokenise

_NAMES: Final = """
AbortMultipartUpload BypassGovernanceRetention
CreateBucket CreateBucketMetadataTableConfiguration
DeleteBucket DeleteBucketMetadataTableConfiguration DeleteBucketPolicy DeleteBucketWebsite
DeleteObject DeleteObjectAnnotation DeleteObjectTagging DeleteObjectVersion DeleteObjectVersionTagging
GetAccelerateConfiguration GetAnalyticsConfiguration GetBucketAbac GetBucketAcl GetBucketCORS GetBucketLocation
GetBucketLogging GetBucketMetadataTableConfiguration GetBucketNotification GetBucketObjectLockConfiguration
GetBucketOwnershipControls GetBucketPolicy GetBucketPolicyStatus GetBucketPublicAccessBlock GetBucketRequestPayment
GetBucketTagging GetBucketVersioning GetBucketWebsite GetEncryptionConfiguration GetIntelligentTieringConfiguration
GetInventoryConfiguration GetLifecycleConfiguration GetMetricsConfiguration
GetObject GetObjectAcl GetObjectAnnotation GetObjectAttributes GetObjectLegalHold GetObjectRetention GetObjectTagging
GetObjectTorrent GetObjectVersion GetObjectVersionAcl GetObjectVersionAttributes GetObjectVersionForReplication
GetObjectVersionTagging GetObjectVersionTorrent GetReplicationConfiguration
InitiateReplication
ListAllMyBuckets ListBucket ListBucketMultipartUploads ListBucketVersions ListMultipartUploadParts
ListObjectAnnotations ListTagsForResource
ObjectOwnerOverrideToBucketOwner
PutAccelerateConfiguration PutAnalyticsConfiguration PutBucketAbac PutBucketAcl PutBucketCORS PutBucketLogging
PutBucketNotification PutBucketObjectLockConfiguration PutBucketOwnershipControls PutBucketPolicy
PutBucketPublicAccessBlock PutBucketRequestPayment PutBucketTagging PutBucketVersioning PutBucketWebsite
PutEncryptionConfiguration PutIntelligentTieringConfiguration PutInventoryConfiguration PutLifecycleConfiguration
PutMetricsConfiguration
PutObject PutObjectAcl PutObjectAnnotation PutObjectLegalHold PutObjectRetention PutObjectTagging PutObjectVersionAcl
PutObjectVersionTagging PutReplicationConfiguration
ReplicateDelete ReplicateObject ReplicateTags RestoreObject
TagResource UntagResource
UpdateBucketMetadataAnnotationTableConfiguration UpdateBucketMetadataInventoryTableConfiguration
UpdateBucketMetadataJournalTableConfiguration UpdateObjectEncryption
"""
ACTIONS: Final = frozenset(f"s3:{name}" for name in _NAMES.split())
"""Every action that an operation may need or a policy may name."""

_BY_LOWER: Final = {action.lower(): action for action in ACTIONS}


@lru_cache(1024)
def actions_of(pattern: str) -> frozenset[str]:
    """The actions an Action element means, in any case and with wildcards. Errors: MalformedPolicy when it is none."""
    folded = pattern.lower()
    if folded == "*":
        return ACTIONS
    tokens = tokenise(folded, with_wildcards=True, with_variables=False)
    glob = Glob([token for token in tokens if isinstance(token, str | Wild)])
    found = frozenset(action for lower, action in _BY_LOWER.items() if glob.matches(lower))
    if not folded.startswith("s3:") or not found:
        raise MalformedPolicy("Policy has invalid action")
    return found
