"""How a form upload proves who sent it: the fields of version 4 or of version 2, which sign the policy document.

A form without any of these fields is anonymous. One with some of them is complete or refused.
"""

import hmac
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from gateway.auth import sigv2
from gateway.auth.query import malformed
from gateway.auth.refusals import Refused, not_signed
from gateway.auth.sigv4 import ALGORITHM, parse_stamp

_POLICY: Final = b"policy"
_V4: Final = (b"x-amz-algorithm", b"x-amz-credential", b"x-amz-date", b"x-amz-signature")
_V2: Final = (b"awsaccesskeyid", b"signature")
TOKEN: Final = b"x-amz-security-token"
_SPELLED: Final = {b"awsaccesskeyid": "AWSAccessKeyId"}


class FormMechanism(Enum):
    """Which version of the signature stands in a form."""

    V4 = 4
    V2 = 2


class FormProof(NamedTuple):
    """What a signed form presents; none of it is verified yet. `credential` is an access key id in version 2."""

    mechanism: FormMechanism
    policy: bytes
    credential: bytes
    signature: bytes
    stamp: bytes = b""


def find_proof(fields: Mapping[bytes, bytes]) -> FormProof | None:
    """The proof a form carries, None when it is anonymous. `fields` are by lower-case name.

    Errors: Refused InvalidArgument for a part of a proof without the rest or for two kinds of it,
    AuthorizationQueryParametersError for the values of version 4.
    """
    in_v4, in_v2 = [name in fields for name in _V4], [name in fields for name in _V2]
    if any(in_v4) and any(in_v2):
        raise Refused("InvalidArgument", "Only one auth mechanism allowed in a form.", ArgumentName="signature")
    if not any(in_v4) and not any(in_v2) and _POLICY not in fields and TOKEN not in fields:
        return None
    required = _V4 if any(in_v4) else _V2
    for name in (_POLICY, *required):
        if name not in fields:
            raise _missing(_SPELLED.get(name, name.decode()))
    if required is _V2:
        return FormProof(FormMechanism.V2, *[fields[name] for name in (_POLICY, *_V2)])
    algorithm, credential, stamp, signature = [fields[name] for name in _V4]
    if algorithm != ALGORITHM:
        raise malformed('X-Amz-Algorithm only supports "AWS4-HMAC-SHA256"')
    if parse_stamp(stamp) is None:
        raise malformed("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"")
    return FormProof(FormMechanism.V4, fields[_POLICY], credential, signature, stamp)


def _missing(name: str) -> Refused:
    message = (
        f"Bucket POST must contain a field named '{name}'.  If it is specified, please check the order of the fields."
    )
    return Refused("InvalidArgument", message, ArgumentName=name, ArgumentValue="")


def refuse_headers(fields: Mapping[bytes, bytes]) -> None:
    """Refuse the acting headers beside a form: only its fields are signed. Errors: Refused AccessDenied."""
    acting = sorted(name.decode("latin-1") for name in fields if name.startswith((b"x-amz-", b"x-tier-")))
    if acting:
        raise not_signed(acting)


def is_signed_v4(proof: FormProof, key: bytes) -> bool:
    """Whether the signature of version 4 holds under a derived key."""
    expected = hmac.digest(key, proof.policy, "sha256").hex().encode()
    return hmac.compare_digest(expected, proof.signature)


def is_signed_v2(proof: FormProof, secret: bytes) -> bool:
    """Whether the signature of version 2 holds under a secret key."""
    return hmac.compare_digest(sigv2.sign(secret, proof.policy), proof.signature)
