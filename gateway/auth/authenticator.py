"""The one classifier: how a request is authenticated is decided here, once, from the whole request.

A request is anonymous, or carries exactly one of: an Authorization header of version 4 or 2, a query of version 4 or 2.
Everything else is refused before any handler runs. What the signature does not cover does not act: acting headers
outside it are refused, and so is a query parameter that occurs twice.
"""

import hmac
from collections.abc import Callable, Mapping
from enum import Enum
from time import gmtime, strftime
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote_to_bytes

from gateway.auth import forms, header, query, sigv2
from gateway.auth.canonical import Query, fold_headers, parse_query
from gateway.auth.keyring import ANONYMOUS, Credential, KeyRing, Principal
from gateway.auth.payload import UNSIGNED, UNSIGNED_WORD, Payload, parse_payload, refuse_chunked
from gateway.auth.post_policy import SIZE_MAX, judge_policy, parse_policy
from gateway.auth.query import QueryMechanism
from gateway.auth.refusals import Refused
from gateway.auth.sigv4 import (
    SKEW_SECONDS_MAX,
    ChunkSignatures,
    Scope,
    SigningKeys,
    mismatch,
    parse_scope,
    refuse_unsigned,
    verify_request,
)
from gateway.http.call import Call

_PAYLOAD_HEADER: Final = b"x-amz-content-sha256"
_TOKEN_HEADER: Final = b"x-amz-security-token"


class Mechanism(Enum):
    """How a request proved who sent it."""

    ANONYMOUS = "anonymous"
    HEADER_V4 = "header v4"
    QUERY_V4 = "query v4"
    HEADER_V2 = "header v2"
    QUERY_V2 = "query v2"
    FORM_V4 = "form v4"
    FORM_V2 = "form v2"


class Authenticated(NamedTuple):
    """Who sent a request, and how its body is to be verified. `chunks` is set when its chunks are signed."""

    principal: Principal
    mechanism: Mechanism
    payload: Payload
    chunks: ChunkSignatures | None = None


class AuthenticatedForm(NamedTuple):
    """Who sent a form, and how many bytes its policy lets the file have, both ends included."""

    authenticated: Authenticated
    sizes: tuple[int, int]


class Authenticator:
    """Verifies requests against the key ring.

    `region` is the one region this gateway answers for. `clock` is seconds since the epoch. `sigv2` says where version
    2 is accepted. `host_bucket` finds the bucket that a Host header names (virtual-hosted style); version 2 signs it.
    """

    def __init__(
        self,
        keyring: KeyRing,
        region: str,
        clock: Callable[[], float],
        *,
        sigv2: Literal["presigned", "all", "off"] = "presigned",
        host_bucket: Callable[[bytes], str | None] | None = None,
    ) -> None:
        self._keyring = keyring
        self._region = region.encode()
        self._clock = clock
        self._sigv2 = sigv2
        self._host_bucket = host_bucket
        # Apart, because the one spells a credential percent-encoded and the other must not.
        self._keys_of_headers = SigningKeys(keyring)
        self._keys_of_queries = SigningKeys(keyring)

    async def authenticate(self, call: Call) -> Authenticated:
        """Who sent `call`. Called once, after the operation is resolved and before anything else is believed.

        Does not suspend while the access key is known. Sets `call.access_key_id`, joins repeated headers, and makes
        headers of the `x-amz-*` parameters of a presigned query. The body is not read.
        Errors: Refused; nothing of the request may be acted on then.
        Cost: see decisions/0005.
        """
        if len(call.fields) != len(call.headers):
            fold_headers(call)
        parameters = parse_query(call.query)
        authorization = call.fields.get(b"authorization")
        if authorization is None and query.is_plain_v4(parameters):
            return await self._query_v4(call, parameters, is_plain=True)
        in_query = query.find_mechanism(parameters) if parameters.pairs else None
        if authorization is None:
            if in_query is None:
                return _anonymous(call)
            return await (self._query_v4 if in_query is QueryMechanism.V4 else self._query_v2)(call, parameters)
        if in_query is not None:
            raise query.two_mechanisms()
        if authorization.startswith(header.V4_PREFIX):
            return await self._header_v4(call, parameters, authorization)
        return await self._header_v2(call, parameters, authorization)

    async def authenticate_form(self, call: Call, fields: Mapping[bytes, bytes]) -> AuthenticatedForm:
        """Who sent a form upload; `fields` are those of the form by lower-case name, `bucket` among them.

        The proof is in the fields alone: a request that also carries one in its headers or query is refused. A signed
        form has passed its policy when this returns. Sets `call.access_key_id`. Errors: Refused, as `authenticate`.
        """
        if b"authorization" in call.fields or query.find_mechanism(parse_query(call.query)) is not None:
            raise query.two_mechanisms()
        forms.refuse_headers(call.fields)
        proof = forms.find_proof(fields)
        if proof is None:
            return AuthenticatedForm(Authenticated(ANONYMOUS, Mechanism.ANONYMOUS, UNSIGNED), (0, SIZE_MAX))
        is_v4 = proof.mechanism is forms.FormMechanism.V4
        credential = await (self._form_v4 if is_v4 else self._form_v2)(proof)
        if forms.TOKEN in fields:
            raise Refused("InvalidToken")
        policy = parse_policy(proof.policy)
        judge_policy(policy, fields, self._clock())
        call.access_key_id = credential.access_key_id
        mechanism = Mechanism.FORM_V4 if is_v4 else Mechanism.FORM_V2
        return AuthenticatedForm(Authenticated(credential.principal, mechanism, UNSIGNED), policy.sizes)

    async def _form_v4(self, proof: forms.FormProof) -> Credential:
        key = self._keys_of_headers.find(proof.credential)
        if key is None:
            found = await self._find_scoped(proof.credential, query.malformed)
            key = self._keys_of_headers.keep(proof.credential, *found)
        if key.day != proof.stamp[:8]:
            raise query.malformed("Invalid credential date. The date must match X-Amz-Date.")
        if not forms.is_signed_v4(proof, key.key):
            raise mismatch(key.credential)
        return key.credential

    async def _form_v2(self, proof: forms.FormProof) -> Credential:
        if self._sigv2 == "off":
            raise _unsupported()
        access_key_id = proof.credential.decode("latin-1")
        if not access_key_id.isascii() or not access_key_id.isprintable():
            raise Refused("InvalidAccessKeyId")
        credential = await self._find(access_key_id)
        if not forms.is_signed_v2(proof, credential.secret):
            raise mismatch(credential)
        return credential

    async def _header_v4(self, call: Call, parameters: Query, authorization: bytes) -> Authenticated:
        presented = header.parse_header_v4(call, authorization)
        credential = presented.credential
        key = self._keys_of_headers.find(credential)
        if key is None:
            found = await self._find_scoped(credential, header.malformed)
            key = self._keys_of_headers.keep(credential, *found)
        if key.day != presented.stamp[:8]:
            raise header.malformed("Invalid credential date. The date must match the date of the request.")
        self._refuse_skewed(presented.seconds)
        word = call.fields.get(_PAYLOAD_HEADER)
        if word is None:
            raise Refused("InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
        payload = parse_payload(word)
        _refuse_token(call, parameters)
        refuse_unsigned(call, presented.signed, word)
        verify_request(call, presented, key, parameters, word)
        call.access_key_id = key.credential.access_key_id
        principal = key.credential.principal
        if not payload.is_chunked:
            return Authenticated(principal, Mechanism.HEADER_V4, payload)
        refuse_chunked(payload, operation=call.operation, is_header_v4=True)
        chunks = ChunkSignatures(key, presented.stamp, presented.signature) if payload.has_signed_chunks else None
        return Authenticated(principal, Mechanism.HEADER_V4, payload, chunks)

    async def _query_v4(self, call: Call, parameters: Query, *, is_plain: bool = False) -> Authenticated:
        presented = query.parse_query_v4(parameters, self._clock())
        spelled = presented.credential
        key = self._keys_of_queries.find(spelled)
        if key is None:
            found = await self._find_scoped(unquote_to_bytes(spelled), query.malformed)
            key = self._keys_of_queries.keep(spelled, *found)
        if key.day != presented.stamp[:8]:
            raise query.malformed("Invalid credential date. The date must match X-Amz-Date.")
        word = query.spelled_payload_word(parameters, call.fields)
        payload = UNSIGNED if word == UNSIGNED_WORD else parse_payload(word)
        refuse_chunked(payload, operation=call.operation, is_header_v4=False)
        if not is_plain or _TOKEN_HEADER in call.fields:
            _refuse_token(call, parameters)
        refuse_unsigned(call, presented.signed, word)
        query.drop_signature(parameters)
        verify_request(call, presented, key, parameters, word)
        if not is_plain:
            query.move_into_headers(call, parameters)
        call.access_key_id = key.credential.access_key_id
        return Authenticated(key.credential.principal, Mechanism.QUERY_V4, payload)

    async def _query_v2(self, call: Call, parameters: Query) -> Authenticated:
        if self._sigv2 == "off":
            raise _unsupported()
        access_key_id, expires, signature = query.parse_query_v2(parameters, self._clock())
        credential = await self._find(access_key_id)
        self._verify_v2(call, credential, parameters, expires, signature)
        sigv2.move_direct(call, parameters)
        query.move_into_headers(call, parameters)
        return _accept_v2(call, credential, Mechanism.QUERY_V2)

    async def _header_v2(self, call: Call, parameters: Query, authorization: bytes) -> Authenticated:
        access_key_id, signature = header.parse_header_v2(authorization)
        if self._sigv2 != "all":
            raise _unsupported()
        self._refuse_skewed(header.signing_time(call)[1])
        credential = await self._find(access_key_id)
        date = b"" if b"x-amz-date" in call.fields else call.fields[b"date"]
        self._verify_v2(call, credential, parameters, date, signature)
        return _accept_v2(call, credential, Mechanism.HEADER_V2)

    def _verify_v2(self, call: Call, credential: Credential, parameters: Query, date: bytes, signature: bytes) -> None:
        bucket = self._host_bucket(call.fields.get(b"host", b"")) if self._host_bucket is not None else None
        sigv2.refuse_unsigned(call)
        paths = sigv2.resource_paths(call.raw_path, bucket)
        texts = [sigv2.string_to_sign(call, parameters, date, path) for path in paths]
        if not any(hmac.compare_digest(sigv2.sign(credential.secret, text), signature) for text in texts):
            raise mismatch(credential)
        _refuse_token(call, parameters)

    async def _find(self, access_key_id: str) -> Credential:
        found = self._keyring.find(access_key_id) or await self._keyring.find_fresh(access_key_id)
        if found is None:
            raise Refused("InvalidAccessKeyId", AWSAccessKeyId=access_key_id)
        return found

    async def _find_scoped(self, credential: bytes, malformed: Callable[[str], Refused]) -> tuple[Scope, Credential]:
        """The access key of a credential string; the string is judged before the key is looked for."""
        scope = parse_scope(credential)
        if scope is None:
            raise malformed("the Credential must be <access key id>/YYYYMMDD/REGION/SERVICE/aws4_request.")
        if scope.region != self._region:
            right = self._region.decode()
            refusal = malformed(f"the region '{scope.region.decode('ascii')}' is wrong; expecting '{right}'")
            refusal.elements["Region"] = right
            raise refusal
        if scope.service != b"s3":
            raise malformed('incorrect service. This endpoint belongs to "s3".')
        if scope.terminator != b"aws4_request":
            raise malformed('incorrect terminal. This endpoint uses "aws4_request".')
        return scope, await self._find(scope.access_key_id)

    def _refuse_skewed(self, seconds: int) -> None:
        now = self._clock()
        if abs(now - seconds) > SKEW_SECONDS_MAX:
            raise Refused(
                "RequestTimeTooSkewed",
                RequestTime=strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(seconds)),
                ServerTime=strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(now)),
                MaxAllowedSkewMilliseconds=str(1000 * SKEW_SECONDS_MAX),
            )


def _anonymous(call: Call) -> Authenticated:
    word = call.fields.get(_PAYLOAD_HEADER, UNSIGNED_WORD)
    payload = UNSIGNED if word == UNSIGNED_WORD else parse_payload(word)
    refuse_chunked(payload, operation=call.operation, is_header_v4=False)
    return Authenticated(ANONYMOUS, Mechanism.ANONYMOUS, payload)


def _accept_v2(call: Call, credential: Credential, mechanism: Mechanism) -> Authenticated:
    payload = parse_payload(call.fields.get(_PAYLOAD_HEADER, UNSIGNED_WORD))
    refuse_chunked(payload, operation=call.operation, is_header_v4=False)
    call.access_key_id = credential.access_key_id
    return Authenticated(credential.principal, mechanism, payload)


def _refuse_token(call: Call, parameters: Query) -> None:
    """Permanent keys come with no session token, and temporary keys are not served."""
    if _TOKEN_HEADER in call.fields or _TOKEN_HEADER in {name.lower() for name in parameters.values}:
        raise Refused("InvalidToken")


def _unsupported() -> Refused:
    return Refused(
        "InvalidRequest",
        "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.",
    )
