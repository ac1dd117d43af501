"""The catalogue of S3 errors, and the one table that turns storage errors into them.

Protocol faults are raised as `S3Error` in the gateway; storage faults pass through handlers untouched and are
translated once, by the endpoint, through `TRANSLATION`. Anything that is in neither is our bug: InternalError.
"""

from collections.abc import Mapping
from enum import Enum, unique
from typing import Final

from tiers import errors
from tiers.errors import StorageError


# fmt: off
@unique
class S3Code(Enum):
    """Every S3 error code we can answer: HTTP status and default message, in AWS's wording.

    Status and message together are the member's value, so that no two codes may have both equal.
    """

    NotModified = 304, "Not Modified"

    AuthorizationHeaderMalformed = 400, "The authorization header that you provided is not valid."
    AuthorizationQueryParametersError = 400, "The authorization query parameters that you provided are not valid."
    AccessControlListNotSupported = 400, "The bucket does not allow ACLs"
    BadRequest = 400, "Bad Request"
    BadDigest = 400, "The Content-MD5 or checksum value that you specified did not match what the server received."
    EntityTooLarge = 400, "Your proposed upload exceeds the maximum allowed object size."
    EntityTooSmall = 400, "Your proposed upload is smaller than the minimum allowed object size."
    ExpiredToken = 400, "The provided token has expired."
    IdempotencyParameterMismatch = 400, (
        "The same client token was used with parameters that do not match those of the previous request.")
    IllegalLocationConstraintException = 400, (
        "The unspecified location constraint is incompatible for the region specific endpoint this request was "
        "sent to.")
    IncompleteBody = 400, "You did not provide the number of bytes specified by the Content-Length HTTP header."
    InvalidArgument = 400, "Invalid Argument"
    InvalidBucketAclWithObjectOwnership = 400, (
        "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting")
    InvalidBucketAclWithBlockPublicAccessError = 400, (
        "Bucket cannot have public ACLs set with BlockPublicAccess enabled")
    InvalidBucketName = 400, "The specified bucket is not valid."
    InvalidDigest = 400, "The Content-MD5 you specified was invalid."
    InvalidEncryptionAlgorithmError = 400, (
        "The encryption request that you specified is not valid. The valid value is AES256.")
    InvalidLocationConstraint = 400, "The specified location-constraint is not valid"
    InvalidPart = 400, (
        "One or more of the specified parts could not be found. The part may not have been uploaded, or the "
        "specified entity tag may not match the part's entity tag.")
    InvalidPartOrder = 400, "The list of parts was not in ascending order. Parts must be ordered by part number."
    InvalidPolicyDocument = 400, (
        "The content of the form does not meet the conditions specified in the policy document.")
    InvalidRDMAToken = 400, "The RDMA token that you provided is not valid."
    InvalidRequest = 400, "Invalid Request"
    InvalidRetentionPeriod = 400, "The retention period must be a positive integer value."
    InvalidStorageClass = 400, "The storage class you specified is not valid"
    InvalidTag = 400, (
        "The tag provided was not a valid tag. This error can occur if the tag did not pass input validation.")
    InvalidTargetBucketForLogging = 400, "The target bucket for logging does not exist"
    InvalidURI = 400, "Couldn't parse the specified URI."
    InvalidWriteOffset = 400, "The write offset value that you specified does not match the current object size."
    KeyTooLongError = 400, "Your key is too long"
    locals()["KMS.NotFoundException"] = 400, "The specified key does not exist."  # no identifier holds a dot
    MalformedACLError = 400, (
        "The XML you provided was not well-formed or did not validate against our published schema for ACLs")
    MalformedPOSTRequest = 400, "The body of your POST request is not well-formed multipart/form-data."
    MalformedPolicy = 400, "Policy has invalid resource"
    MalformedTrailerError = 400, (
        "The request contained trailing data that was not well-formed or did not conform to our published schema.")
    MalformedXML = 400, "The XML you provided was not well-formed or did not validate against our published schema"
    MaxPostPreDataLengthExceeded = 400, "Your POST request fields preceding the upload file were too large."
    MetadataTooLarge = 400, "Your metadata headers exceed the maximum allowed metadata size"
    MissingSecurityHeader = 400, "Your request was missing a required header"
    RequestTimeout = 400, (
        "Your socket connection to the server was not read from or written to within the timeout period. Idle "
        "connections will be closed.")
    TooManyConfigurations = 400, "You are attempting to create a new configuration but have already reached the limit."
    TooManyBuckets = 400, "You have attempted to create more buckets than allowed"
    TooManyParts = 400, (
        "You have attempted to add more parts than the maximum of 10000 that are allowed for this object. You can use "
        "the CopyObject operation to copy this object to another and then add more data to the newly copied object.")
    UnexpectedContent = 400, "This request does not support content"
    UnresolvableGrantByEmailAddress = 400, "The e-mail address you provided does not match any account on record."
    UserKeyMustBeSpecified = 400, (
        "The bucket POST must contain the specified field name. If it is specified, please check the order of the "
        "fields.")
    XAmzContentSHA256Mismatch = 400, "The provided 'x-amz-content-sha256' header does not match what was computed."

    # SelectObjectContent
    CastFailed = 400, "The attempt to convert a value by CAST in the SQL expression failed."
    CSVParsingError = 400, "The CSV object could not be parsed. Check the object and try again."
    EvaluatorBindingDoesNotExist = 400, "A column name or a path provided does not exist in the SQL expression."
    ExpressionTooLong = 400, "The SQL expression is too long."
    InvalidCompressionFormat = 400, "The compression format is not supported. Only GZIP, BZIP2 and NONE are."
    InvalidDataSource = 400, "The data source type is not valid. Only CSV, JSON and Parquet are supported."
    InvalidDataType = 400, "The SQL expression contains a data type that is not valid."
    InvalidExpressionType = 400, "The ExpressionType value is not valid. Only SQL expressions are supported."
    InvalidFileHeaderInfo = 400, "The FileHeaderInfo value is not valid. Only NONE, USE and IGNORE are supported."
    InvalidJsonType = 400, "The JsonType value is not valid. Only DOCUMENT and LINES are supported."
    InvalidQuoteFields = 400, "The QuoteFields value is not valid. Only ALWAYS and ASNEEDED are supported."
    InvalidTextEncoding = 400, "The encoding type is not valid. Only UTF-8 encoding is supported."
    JSONParsingError = 400, "The JSON object could not be parsed. Check the object and try again."
    LexerInvalidChar = 400, "The SQL expression contains an invalid character."
    LikeInvalidInputs = 400, "The argument of LIKE in the SQL expression is not valid."
    OverMaxParquetBlockSize = 400, "The Parquet object is larger than the maximum."
    OverMaxRecordSize = 400, "The length of a record in the input or result is greater than the maximum."
    ParquetParsingError = 400, "The Parquet object could not be parsed. Check the object and try again."
    ParseExpectedDatePart = 400, "The SQL expression does not name a part of a date where one is expected."
    ParseInvalidArguments = 400, "The SQL expression calls a function with arguments that it does not take."
    ParseInvalidPathComponent = 400, "The SQL expression contains a path component that is not valid."
    ParseSelectMissingFrom = 400, "The SQL expression does not contain FROM after its SELECT list."
    ParseUnexpectedToken = 400, "The SQL expression contains an unexpected token."
    ParseUnknownType = 400, "The SQL expression casts to an unknown type."
    TruncatedInput = 400, "Object decompression failed. Check that the object is properly compressed."
    UnsupportedFunction = 400, "The SQL expression contains a function that is not supported."
    UnsupportedSqlOperation = 400, "The SQL expression contains an operation that is not supported."
    UnsupportedSqlStructure = 400, "The SQL expression contains a structure that is not supported."
    UnsupportedSyntax = 400, "The SQL expression contains syntax that is not supported."

    AccessDenied = 403, "Access Denied"
    AccessForbidden = 403, "CORSResponse: This CORS request is not allowed."
    InvalidAccessKeyId = 403, "The AWS Access Key Id you provided does not exist in our records."
    InvalidObjectState = 403, "The operation is not valid for the object's storage class"
    InvalidToken = 403, "The provided token is malformed or otherwise invalid."
    ObjectAlreadyInActiveTierError = 403, "This object is already in an active tier and cannot be restored."
    QuotaExceeded = 403, "The quota set for this request's bucket, user or tenant would be exceeded."
    RequestTimeTooSkewed = 403, "The difference between the request time and the current time is too large."
    SignatureDoesNotMatch = 403, (
        "The request signature we calculated does not match the signature you provided. Check your key and signing "
        "method.")

    NoSuchBucket = 404, "The specified bucket does not exist"
    NoSuchKey = 404, "The specified key does not exist."
    NoSuchUpload = 404, (
        "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or "
        "completed.")
    NoSuchVersion = 404, "The specified version does not exist."
    NoSuchBucketPolicy = 404, "The bucket policy does not exist"
    NoSuchConfiguration = 404, "The specified configuration does not exist."
    NoSuchCORSConfiguration = 404, "The CORS configuration does not exist"
    NoSuchLifecycleConfiguration = 404, "The lifecycle configuration does not exist"
    NoSuchObjectLockConfiguration = 404, "The specified object does not have a ObjectLock configuration"
    NoSuchPublicAccessBlockConfiguration = 404, "The public access block configuration was not found"
    NoSuchTagSet = 404, "The TagSet does not exist"
    NoSuchWebsiteConfiguration = 404, "The specified bucket does not have a website configuration"
    ObjectLockConfigurationNotFoundError = 404, "Object Lock configuration does not exist for this bucket"
    OwnershipControlsNotFoundError = 404, "The bucket ownership controls were not found"
    ReplicationConfigurationNotFoundError = 404, "The replication configuration was not found"
    ServerSideEncryptionConfigurationNotFoundError = 404, "The server side encryption configuration was not found"

    MethodNotAllowed = 405, "The specified method is not allowed against this resource."

    BucketAlreadyExists = 409, (
        "The requested bucket name is not available. The bucket namespace is shared by all users of the system. "
        "Please select a different name and try again.")
    BucketAlreadyOwnedByYou = 409, "Your previous request to create the named bucket succeeded and you already own it."
    BucketNotEmpty = 409, "The bucket you tried to delete is not empty"
    ConditionalRequestConflict = 409, (
        "The conditional request cannot succeed due to a conflicting operation against this resource.")
    InvalidBucketState = 409, "The request is not valid with the current state of the bucket."
    OperationAborted = 409, (
        "A conflicting conditional operation is currently in progress against this resource. Please try again.")
    RestoreAlreadyInProgress = 409, "Object restore is already in progress"

    MissingContentLength = 411, "You must provide the Content-Length HTTP header."
    PreconditionFailed = 412, "At least one of the pre-conditions you specified did not hold"
    InvalidRange = 416, "The requested range is not satisfiable"

    InternalError = 500, "We encountered an internal error. Please try again."
    NotImplemented = 501, "A header or operation you requested implies functionality that is not implemented"
    RDMANotSupported = 501, "This server does not serve RDMA transfers for this request."
    GlacierExpeditedRetrievalNotAvailable = 503, (
        "Glacier expedited retrievals are currently not available, please try again later")
    Busy = 503, "The service is busy. Please try again later."
    ServiceUnavailable = 503, "Service is unable to handle request."
    SlowDown = 503, "Please reduce your request rate."

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = message


TRANSLATION: Final[Mapping[type[StorageError], S3Code]] = {
    errors.AppendRefused: S3Code.NotImplemented,
    errors.BucketNameTaken: S3Code.BucketAlreadyExists,
    errors.BucketNotEmpty: S3Code.BucketNotEmpty,
    errors.BucketNotFound: S3Code.NoSuchBucket,
    errors.BucketStateRefused: S3Code.InvalidBucketState,
    errors.BucketVersioned: S3Code.InvalidRequest,
    errors.ChecksumMismatch: S3Code.BadDigest,
    errors.ChecksumNotCombinable: S3Code.InvalidRequest,
    errors.ConditionFailed: S3Code.PreconditionFailed,
    errors.ContentUnreadable: S3Code.ServiceUnavailable,
    errors.DeleteMarkerFound: S3Code.MethodNotAllowed,
    errors.DeviceFailed: S3Code.ServiceUnavailable,
    errors.DeviceFull: S3Code.ServiceUnavailable,
    errors.FragmentCorrupt: S3Code.ServiceUnavailable,
    errors.FragmentNotFound: S3Code.ServiceUnavailable,
    errors.InvalidPart: S3Code.InvalidPart,
    errors.InvalidPartOrder: S3Code.InvalidPartOrder,
    errors.KeyNotFound: S3Code.NoSuchKey,
    errors.KeyUnavailable: S3Code.ServiceUnavailable,
    errors.LockNotEnabled: S3Code.InvalidRequest,
    errors.LogGap: S3Code.InternalError,
    errors.MetadataRefused: S3Code.ServiceUnavailable,
    errors.MetadataUnavailable: S3Code.ServiceUnavailable,
    errors.OffsetMismatch: S3Code.InvalidWriteOffset,
    errors.PartTooSmall: S3Code.EntityTooSmall,
    errors.PlacementMoved: S3Code.OperationAborted,
    errors.PlacementShort: S3Code.ServiceUnavailable,
    errors.QuorumNotReached: S3Code.ServiceUnavailable,
    errors.QuotaExceeded: S3Code.QuotaExceeded,
    errors.SizeMismatch: S3Code.InvalidRequest,
    errors.StorageClassUnknown: S3Code.InvalidStorageClass,
    errors.StoreBusy: S3Code.SlowDown,
    errors.TokenReused: S3Code.IdempotencyParameterMismatch,
    errors.TooManyExtents: S3Code.TooManyParts,
    errors.UploadNotFound: S3Code.NoSuchUpload,
    errors.VersionLocked: S3Code.AccessDenied,
    errors.VersionNotFound: S3Code.NoSuchVersion,
}
# fmt: on


class S3Error(Exception):
    """A fault of the request, as the client is to be told.

    `message` None means the code's own. `elements` are further elements of the error document by their XML names, such
    as BucketName, Key, ArgumentName, ArgumentValue, Condition, Header; the endpoint adds Resource and RequestId.
    """

    def __init__(self, code: S3Code, message: str | None = None, **elements: str) -> None:
        super().__init__(code.name)
        self.code = code
        self.message = code.message if message is None else message
        self.elements = elements

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"
