import pytest

from gateway.auth.access import decide
from gateway.auth.keyring import ANONYMOUS, Principal

ALICE = Principal("a", "alice")
ROOT = Principal("r", "root", is_root=True)


@pytest.mark.parametrize(
    ("principal", "action", "owner", "expected"),
    [
        (ALICE, "s3:GetObject", "a", True),
        (ALICE, "s3:DeleteBucket", "a", True),
        (ALICE, "s3:GetObject", "b", False),
        (ALICE, "s3:GetObject", None, False),
        (ALICE, "s3:ListAllMyBuckets", None, True),
        (ALICE, "s3:CreateBucket", None, True),
        (ALICE, "s3:CreateBucket", "b", True),
        (ROOT, "s3:GetObject", "b", True),
        (ROOT, "s3:GetObject", None, True),
        (ANONYMOUS, "s3:GetObject", "a", False),
        (ANONYMOUS, "s3:GetObject", "", False),
        (ANONYMOUS, "s3:GetObject", None, False),
        (ANONYMOUS, "s3:ListAllMyBuckets", None, False),
        (Principal("", "anyone", is_root=True), "s3:GetObject", "", False),
    ],
)
def test_decide(principal: Principal, action: str, owner: str | None, expected: bool) -> None:
    assert decide(principal, action, owner) is expected
