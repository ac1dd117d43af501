"""Lists as values: what canned names mean, who is let in, who comes to own what."""

import pytest

from gateway.auth.acl import (
    ANONYMOUS_OWNER_ID,
    BUCKET_PERMISSIONS,
    CANNED,
    NO_LIST,
    OBJECT_PERMISSIONS,
    Acl,
    AskedAcl,
    Grant,
    Group,
    Owned,
    Ownership,
    Permission,
    allows_on_bucket,
    allows_on_object,
    bucket_acl,
    canned_acl,
    change_acl,
    grants,
    is_public,
    is_shared,
    make_acl,
    object_acl,
    own_object,
    pack_acl,
    private_acl,
    unpack_acl,
    without_public,
)
from gateway.auth.keyring import ANONYMOUS, Principal
from gateway.auth.refusals import Refused

ALICE, BOB = Principal("a", "alice"), Principal("b", "bob")
READ, WRITE, FULL = Permission.READ, Permission.WRITE, Permission.FULL_CONTROL
ALL, AUTHENTICATED, LOGS = Group.ALL_USERS, Group.AUTHENTICATED_USERS, Group.LOG_DELIVERY
OWN = Grant("a", FULL)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("private", (OWN,)),
        ("public-read", (Grant(ALL, READ), OWN)),
        ("public-read-write", (Grant(ALL, READ), Grant(ALL, WRITE), OWN)),
        ("authenticated-read", (Grant(AUTHENTICATED, READ), OWN)),
        ("log-delivery-write", (Grant(LOGS, WRITE), Grant(LOGS, Permission.READ_ACP), OWN)),
        ("bucket-owner-read", (OWN, Grant("b", READ))),
        ("bucket-owner-full-control", (OWN, Grant("b", FULL))),
    ],
)
def test_canned_lists_in_the_order_clients_expect(name: str, expected: tuple[Grant, ...]) -> None:
    assert canned_acl(name, "a", "b") == Acl("a", expected)


def test_every_canned_list_is_a_list_and_comes_back_from_its_stored_form() -> None:
    for name in CANNED:
        for bucket_owner in ("a", "b"):
            acl = canned_acl(name, "a", bucket_owner)
            assert acl.grants.count(OWN) == 1
            assert unpack_acl(pack_acl(acl), "a") == acl
    assert pack_acl(canned_acl("private", "a", "b")) == b""
    assert canned_acl("bucket-owner-read", "a", "a") == private_acl("a")


def test_a_list_without_grants_is_not_the_private_one() -> None:
    nobody = make_acl("a", ())
    assert pack_acl(nobody) != b""
    assert unpack_acl(pack_acl(nobody), "a") == nobody


def test_grants_are_kept_once_and_groups_stand_first() -> None:
    assert make_acl("a", (OWN, Grant(ALL, READ), OWN)).grants == (Grant(ALL, READ), OWN)


@pytest.mark.parametrize(
    ("acl", "principal", "permission", "expected"),
    [
        (private_acl("a"), ALICE, READ, True),
        (private_acl("a"), BOB, READ, False),
        (private_acl("a"), ANONYMOUS, READ, False),
        (private_acl(""), ANONYMOUS, READ, False),
        (private_acl(ANONYMOUS_OWNER_ID), ANONYMOUS, READ, False),
        (make_acl("a", ()), ALICE, READ, False),
        (make_acl("a", ()), ALICE, Permission.READ_ACP, True),
        (make_acl("a", ()), ALICE, Permission.WRITE_ACP, True),
        (make_acl("", ()), ANONYMOUS, Permission.WRITE_ACP, False),
        (canned_acl("public-read", "a", "a"), ANONYMOUS, READ, True),
        (canned_acl("public-read", "a", "a"), ANONYMOUS, WRITE, False),
        (canned_acl("public-read-write", "a", "a"), ANONYMOUS, WRITE, True),
        (canned_acl("authenticated-read", "a", "a"), ANONYMOUS, READ, False),
        (canned_acl("authenticated-read", "a", "a"), BOB, READ, True),
        (canned_acl("log-delivery-write", "a", "a"), BOB, WRITE, False),
        (canned_acl("log-delivery-write", "a", "a"), ANONYMOUS, WRITE, False),
        (make_acl("a", (Grant("b", WRITE),)), BOB, WRITE, True),
        (make_acl("a", (Grant("b", WRITE),)), BOB, READ, False),
        (make_acl("a", (Grant("b", FULL),)), BOB, Permission.WRITE_ACP, True),
    ],
)
def test_who_is_let_in(acl: Acl, principal: Principal, permission: Permission, expected: bool) -> None:
    assert grants(acl, principal, permission) is expected


def test_actions_without_a_permission_are_allowed_by_no_list() -> None:
    everything = make_acl("a", (Grant(ALL, FULL),))
    for action in ("s3:DeleteBucket", "s3:PutBucketPolicy", "s3:DeleteObjectVersion", "s3:GetObjectTagging"):
        assert not allows_on_bucket(everything, ALICE, action)
        assert not allows_on_object(everything, ALICE, action)
    assert not set(BUCKET_PERMISSIONS) & set(OBJECT_PERMISSIONS)
    assert allows_on_bucket(everything, ANONYMOUS, "s3:PutObject")
    assert not allows_on_object(everything, ANONYMOUS, "s3:PutObject")
    assert allows_on_object(everything, ANONYMOUS, "s3:GetObjectVersion")


@pytest.mark.parametrize(
    ("name", "public", "shared"),
    [
        ("private", False, False),
        ("public-read", True, True),
        ("authenticated-read", True, True),
        ("log-delivery-write", False, True),
        ("bucket-owner-read", False, True),
    ],
)
def test_public_and_shared(name: str, public: bool, shared: bool) -> None:
    acl = canned_acl(name, "a", "b")
    assert (is_public(acl), is_shared(acl)) == (public, shared)
    assert not is_public(without_public(acl))
    assert OWN in without_public(acl).grants


FULL_TO_BUCKET_OWNER = AskedAcl("bucket-owner-full-control")
SAME_AS_GRANTS = AskedAcl(grants=(Grant("o", FULL),))


@pytest.mark.parametrize(
    ("ownership", "asked", "expected"),
    [
        (Ownership.WRITER, NO_LIST, Owned("w", b"")),
        (Ownership.WRITER, AskedAcl("private"), Owned("w", b"")),
        (
            Ownership.WRITER,
            FULL_TO_BUCKET_OWNER,
            Owned("w", pack_acl(canned_acl(FULL_TO_BUCKET_OWNER.canned, "w", "o"))),
        ),
        (Ownership.PREFERRED, NO_LIST, Owned("w", b"")),
        (Ownership.PREFERRED, FULL_TO_BUCKET_OWNER, Owned("o", b"")),
        (Ownership.PREFERRED, SAME_AS_GRANTS, Owned("w", pack_acl(make_acl("w", (Grant("o", FULL),))))),
        (Ownership.ENFORCED, NO_LIST, Owned("o", b"")),
        (Ownership.ENFORCED, FULL_TO_BUCKET_OWNER, Owned("o", b"")),
        (Ownership.ENFORCED, SAME_AS_GRANTS, Owned("o", b"")),
        (Ownership.ENFORCED, AskedAcl("private"), "AccessControlListNotSupported"),
        (Ownership.ENFORCED, AskedAcl("public-read"), "AccessControlListNotSupported"),
        (Ownership.ENFORCED, AskedAcl(grants=()), "AccessControlListNotSupported"),
        (Ownership.WRITER, AskedAcl("public-read"), "AccessDenied"),
        (Ownership.PREFERRED, AskedAcl("authenticated-read"), "AccessDenied"),
        (
            Ownership.WRITER,
            AskedAcl("log-delivery-write"),
            Owned("w", pack_acl(canned_acl("log-delivery-write", "w", "o"))),
        ),
    ],
)
def test_who_owns_what_is_written_where_public_lists_are_blocked(
    ownership: Ownership, asked: AskedAcl, expected: Owned | str
) -> None:
    if isinstance(expected, str):
        with pytest.raises(Refused) as caught:
            own_object(asked, "w", "o", ownership, blocks=True)
        assert caught.value.code == expected
    else:
        assert own_object(asked, "w", "o", ownership, blocks=True) == expected


def test_public_lists_pass_where_nothing_blocks_them() -> None:
    owned = own_object(AskedAcl("public-read"), "w", "o", Ownership.WRITER, blocks=False)
    assert is_public(unpack_acl(owned.acl, owned.owner_id))
    changed = change_acl(AskedAcl("public-read"), "w", "o", Ownership.WRITER, blocks=False)
    assert changed == owned.acl


def test_what_nobody_signed_for_belongs_to_no_principal() -> None:
    assert own_object(NO_LIST, "", "o", Ownership.WRITER, blocks=False).owner_id == ANONYMOUS_OWNER_ID
    assert own_object(NO_LIST, "", "o", Ownership.ENFORCED, blocks=False).owner_id == "o"


@pytest.mark.parametrize(
    ("ownership", "asked", "expected"),
    [
        (Ownership.ENFORCED, AskedAcl("private"), "AccessControlListNotSupported"),
        (Ownership.ENFORCED, FULL_TO_BUCKET_OWNER, None),
        (Ownership.ENFORCED, SAME_AS_GRANTS, None),
        (Ownership.WRITER, AskedAcl("public-read-write"), "AccessDenied"),
        (Ownership.PREFERRED, AskedAcl("private"), b""),
    ],
)
def test_changes_of_lists(ownership: Ownership, asked: AskedAcl, expected: bytes | str | None) -> None:
    if isinstance(expected, str):
        with pytest.raises(Refused) as caught:
            change_acl(asked, "o", "o", ownership, blocks=True)
        assert caught.value.code == expected
    else:
        assert change_acl(asked, "o", "o", ownership, blocks=True) == expected


def test_where_lists_do_not_count_the_bucket_owner_has_everything() -> None:
    stored = pack_acl(canned_acl("public-read", "w", "o"))
    assert object_acl(stored, "w", "o", Ownership.ENFORCED) == private_acl("o")
    assert object_acl(stored, "w", "o", Ownership.WRITER) == canned_acl("public-read", "w", "o")
    assert bucket_acl(pack_acl(canned_acl("public-read", "o", "o")), "o", Ownership.ENFORCED) == private_acl("o")
