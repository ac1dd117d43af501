"""The condition keys this store knows, in lower case.

A key that is known and absent from a request is absent as on AWS: nobody here comes through a VPC, from an organisation
or with a second factor. A key outside this list cannot be judged: a statement that names one never allows, and denies
as if the condition held.
"""

from typing import Final

_GLOBAL: Final = """
CurrentTime EpochTime MultiFactorAuthAge MultiFactorAuthPresent PrincipalAccount PrincipalArn PrincipalIsAWSService
PrincipalOrgID PrincipalOrgPaths PrincipalServiceName PrincipalServiceNamesList PrincipalType Referer RequestedRegion
ResourceAccount SecureTransport SourceAccount SourceArn SourceIp SourceOrgID SourceOrgPaths SourceOwner SourceVpc
SourceVpce TokenIssueTime UserAgent ViaAWSService VpcSourceIp userid username
"""
_OF_S3: Final = """
LocationConstraint RequestObjectTagKeys ResourceAccount TlsVersion VersionId authType delimiter if-match if-none-match
max-keys object-lock-legal-hold object-lock-mode object-lock-remaining-retention-days object-lock-retain-until-date
prefix signatureAge signatureversion
"""
_HEADERS: Final = """
acl bucket-object-lock-enabled content-sha256 copy-source grant-full-control grant-read grant-read-acp grant-write
grant-write-acp metadata-directive object-ownership server-side-encryption
server-side-encryption-aws-kms-key-id server-side-encryption-customer-algorithm storage-class tagging-directive
website-redirect-location
"""
HEADER_KEYS: Final = frozenset(f"s3:x-amz-{name}" for name in _HEADERS.split())
"""Keys whose value is the header of the same name."""

_AWS_ONLY: Final = """
AccessGrantsInstanceArn AccessPointNetworkOrigin AccessPointTag/ BucketTag/ DataAccessPointAccount DataAccessPointArn
DestinationRegion ExistingJobOperation ExistingJobPriority InventoryAccessibleOptionalFields JobSuspendedCause
RequestJobOperation RequestJobPriority ReplicationSourceArn ResourceAccountOrgID
"""

EXISTING_TAG: Final = "s3:existingobjecttag/"
REQUEST_TAG: Final = "s3:requestobjecttag/"
REQUEST_TAG_KEYS: Final = "s3:requestobjecttagkeys"
LOCK_KEYS: Final = "s3:object-lock-"
_TAGS: Final = (EXISTING_TAG, REQUEST_TAG, "aws:principaltag/")

KNOWN: Final = frozenset(
    {f"aws:{name.lower()}" for name in _GLOBAL.split()}
    | {f"s3:{name.lower()}" for name in _OF_S3.split()}
    | HEADER_KEYS
)
_ELSEWHERE: Final = tuple(f"s3:{name.lower()}" for name in _AWS_ONLY.split())


def is_known(key: str) -> bool:
    """Whether a key in lower case can be judged here."""
    return key in KNOWN or any(key.startswith(prefix) and len(key) > len(prefix) for prefix in _TAGS)


def is_spelled_right(key: str) -> bool:
    """Whether a key may stand in a policy: an S3 key has to be one of AWS's, others need only have the form of one."""
    service, colon, name = key.partition(":")
    if not colon or not service or not name or not key.isprintable():
        return False
    return service != "s3" or is_known(key) or key.startswith(_ELSEWHERE)
