"""Requests signed by botocore and awscrt are accepted; with one signed byte changed, or one thing added, refused."""

from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.auth.canonical import parse_query, query_text
from gateway.auth.refusals import Refused
from gateway.http.call import Call
from tests.unit.auth.signing import ALICE, authenticate, make_authenticator, signed, with_header

_AUTHENTICATOR = make_authenticator()
_SETTINGS = settings(max_examples=400, deadline=None)

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_KEYS = st.text(st.one_of(st.sampled_from("ab/.%+ ~*;=!'()&?#"), st.characters(exclude_categories=["Cs"])), max_size=20)
_WORDS = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)
_VALUES = st.from_regex(r"[!-~]([ !-~]{0,14}[!-~])?", fullmatch=True)


@st.composite
def targets(draw: st.DrawFn) -> str:
    """Path and query as SDKs spell them: every name at most once, in any order, with or without `=`."""
    path = "/bucket/" + quote(draw(_KEYS), safe="/~")
    names = draw(st.lists(_WORDS.filter(lambda name: name not in {"signature"}), unique=True, max_size=4))
    pairs = [f"{name}={quote(draw(_TEXT), safe='-_.~')}" if draw(st.booleans()) else name for name in names]
    return path + ("?" + "&".join(pairs) if pairs else "")


@st.composite
def calls(draw: st.DrawFn) -> Call:
    """A signed call of version 4."""
    headers = {
        f"x-amz-meta-{name}": value for name, value in draw(st.dictionaries(_WORDS, _VALUES, max_size=2)).items()
    }
    if draw(st.booleans()):
        headers["content-type"] = draw(_VALUES)
    return signed(
        draw(st.sampled_from(["GET", "PUT", "HEAD", "DELETE", "POST"])),
        draw(targets()),
        headers,
        draw(st.sampled_from([b"", b"content"])),
        mechanism=draw(st.sampled_from(["header", "query", "crt header", "crt query"])),
    )


@given(calls())
@_SETTINGS
def test_signed_requests_are_accepted(call: Call) -> None:
    assert authenticate(call, _AUTHENTICATOR).principal == ALICE
    assert call.access_key_id == "AKIDEXAMPLE"


def _change_path(call: Call, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(1, len(call.raw_path) - 1))
    other = draw.draw(st.sampled_from(b"abcXYZ019-._~%/").filter(lambda byte: byte != call.raw_path[at]))
    call.raw_path = call.raw_path[:at] + bytes([other]) + call.raw_path[at + 1 :]


def _change_method(call: Call, draw: st.DataObject) -> None:
    call.method = draw.draw(st.sampled_from(["GET", "PUT", "DELETE"]).filter(lambda method: method != call.method))


def _add_parameter(call: Call, draw: st.DataObject) -> None:
    added = draw.draw(st.sampled_from([b"acl", b"versionId=v", b"prefix=%2F", b"response-content-type=text%2Fhtml"]))
    assert added.partition(b"=")[0] not in parse_query(call.query).values
    call.query += (b"&" if call.query else b"") + added


def _drop_or_change_parameter(call: Call, draw: st.DataObject) -> None:
    pairs = call.query.split(b"&") if call.query else [b"x-absent"]
    at = draw.draw(st.integers(0, len(pairs) - 1))
    changed = draw.draw(st.sampled_from([pairs[at] + b"1", None]))
    if call.query == b"":
        pairs = [b"x=1"]
    elif changed is None:
        del pairs[at]
    else:
        pairs[at] = changed
    call.query = b"&".join(pairs)


def _change_header(call: Call, draw: st.DataObject) -> None:
    listed = call.fields.get(b"authorization", b"SignedHeaders=host,").split(b"SignedHeaders=")[1].split(b",")[0]
    if b"X-Amz-SignedHeaders=" in call.query:
        listed = call.query.split(b"X-Amz-SignedHeaders=")[1].split(b"&")[0].replace(b"%3B", b";")
    name = draw.draw(st.sampled_from(listed.split(b";")))
    if draw.draw(st.booleans()):
        with_header(call, name, call.fields[name] + b"1")
    else:
        del call.fields[name]
        call.headers = list(call.fields.items())


def _change_signature(call: Call, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(1, 64))
    if b"authorization" in call.fields:
        text = call.fields[b"authorization"]
        with_header(call, b"authorization", text[:-at] + bytes([text[-at] ^ 1]) + text[len(text) - at + 1 :])
    else:
        head, mark, rest = call.query.partition(b"X-Amz-Signature=")
        rest = rest[: at - 1] + bytes([rest[at - 1] ^ 1]) + rest[at:]
        call.query = head + mark + rest


def _add_acting_header(call: Call, draw: st.DataObject) -> None:
    names = [
        b"x-amz-copy-source", b"x-amz-acl", b"x-amz-grant-read", b"x-amz-tagging", b"x-amz-meta-zzzzzzzzzz",
        b"x-amz-storage-class", b"x-amz-server-side-encryption", b"x-amz-object-lock-mode",
        b"x-amz-website-redirect-location", b"x-amz-decoded-content-length", b"x-amz-trailer",
        b"x-amz-sdk-checksum-algorithm", b"x-amz-bypass-governance-retention", b"x-tier-hint",
    ]  # fmt: skip
    with_header(call, draw.draw(st.sampled_from(names)), b"/victim/secret")


_CHANGES = [
    _change_path,
    _change_method,
    _add_parameter,
    _drop_or_change_parameter,
    _change_header,
    _change_signature,
    _add_acting_header,
]


@pytest.mark.parametrize("change", _CHANGES)
@given(call=calls(), draw=st.data())
@settings(max_examples=120, deadline=None)
def test_one_change_is_refused(change: Callable[[Call, st.DataObject], None], call: Call, draw: st.DataObject) -> None:
    change(call, draw)
    with pytest.raises(Refused):
        authenticate(call, _AUTHENTICATOR)


@given(st.lists(st.tuples(_TEXT.filter(bool), _TEXT), unique_by=lambda pair: pair[0], max_size=5), st.randoms())
@_SETTINGS
def test_every_spelling_of_a_query_has_one_canonical_form(pairs: list[tuple[str, str]], rng: object) -> None:
    """Unsorted, lower-case escapes, escaped letters and plus signs all come to what the specification prescribes."""
    expected = b"&".join(
        name + b"=" + value
        for name, value in sorted((quote(name, safe="-_.~").encode(), quote(value, safe="-_.~").encode())
                                  for name, value in pairs)
    )  # fmt: skip
    spelled = [f"{_respell(name, rng)}={_respell(value, rng)}" for name, value in pairs]
    rng.shuffle(spelled)  # type: ignore[attr-defined] # hypothesis gives a random.Random
    assert query_text(parse_query("&".join(spelled).encode()).pairs) == expected


def _respell(text: str, rng: object) -> str:
    pick = rng.choice  # type: ignore[attr-defined] # hypothesis gives a random.Random
    out = []
    for byte in text.encode():
        canonical = quote(bytes([byte]), safe="-_.~")
        forms = [canonical, f"%{byte:02X}", f"%{byte:02x}", *(["+"] if byte == 0x20 else [])]
        out.append(pick(forms))
    return "".join(out)
