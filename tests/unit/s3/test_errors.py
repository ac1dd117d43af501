from gateway.s3.errors import TRANSLATION, S3Code, S3Error
from tiers import errors
from tiers.errors import StorageError


def test_every_storage_error_has_a_code() -> None:
    assert set(StorageError.__subclasses__()) == set(TRANSLATION)
    declared = {getattr(errors, name) for name in errors.__all__} - {StorageError}
    assert declared == set(TRANSLATION)


def test_no_storage_error_reveals_more_than_that_it_cannot_be_served() -> None:
    """What cannot be read or written now is 503, never 404: a client may try again."""
    broken = (errors.ContentUnreadable, errors.FragmentCorrupt, errors.FragmentNotFound, errors.QuorumNotReached)
    assert {TRANSLATION[error].status for error in broken} == {503}


def test_no_two_codes_are_one() -> None:
    assert len(S3Code.__members__) == len(set(S3Code)) == len({code.value for code in S3Code})


def test_statuses() -> None:
    """The catalogue by status, as the specification lists it."""
    by_status: dict[int, set[str]] = {}
    for code in S3Code:
        by_status.setdefault(code.status, set()).add(code.name)
    assert by_status[403] == {
        *("AccessDenied", "AccessForbidden", "InvalidAccessKeyId", "InvalidObjectState", "InvalidToken"),
        *("ObjectAlreadyInActiveTierError", "QuotaExceeded", "RequestTimeTooSkewed", "SignatureDoesNotMatch"),
    }
    assert by_status[409] == {
        *("BucketAlreadyExists", "BucketAlreadyOwnedByYou", "BucketNotEmpty", "ConditionalRequestConflict"),
        *("InvalidBucketState", "OperationAborted", "RestoreAlreadyInProgress"),
    }
    assert by_status[503] == {"Busy", "SlowDown", "ServiceUnavailable", "GlacierExpeditedRetrievalNotAvailable"}
    assert (len(by_status[400]), len(by_status[404])) == (76, 16)
    assert set(by_status) == {304, 400, 403, 404, 405, 409, 411, 412, 416, 500, 501, 503}


def test_error_carries_its_elements() -> None:
    error = S3Error(S3Code.NoSuchBucket, BucketName="b")
    assert (error.message, error.elements) == ("The specified bucket does not exist", {"BucketName": "b"})
    assert str(S3Error(S3Code.InvalidArgument, "no")) == "InvalidArgument: no"
