"""Cross-origin rules: the document, which rule a request meets, and the lines it is answered with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.s3 import cors, xml
from gateway.s3.cors import VARY, CorsRule, find_rule, lines_of_preflight, lines_of_request, matches
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.schemas.cors import parse_rules, render

NAMESPACE = b'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
PLAIN = b"<AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin>"


def document(*rules: bytes) -> bytes:
    inner = b"".join(b"<CORSRule>" + rule + b"</CORSRule>" for rule in rules)
    return b"<CORSConfiguration>" + inner + b"</CORSConfiguration>"


def rule(origin: str = "*", *methods: str, headers: tuple[str, ...] = (), exposed: tuple[str, ...] = ()) -> CorsRule:
    return CorsRule(None, methods or ("GET",), (origin,), headers, exposed, None)


def test_a_document_reads_back_as_put() -> None:
    body = document(
        b"<ID>one</ID><AllowedHeader>*</AllowedHeader><AllowedMethod>PUT</AllowedMethod><AllowedMethod>GET"
        b"</AllowedMethod><AllowedOrigin>https://*.b</AllowedOrigin><ExposeHeader>ETag</ExposeHeader>"
        b"<MaxAgeSeconds>0</MaxAgeSeconds>",
        PLAIN,
    )
    rules = parse_rules(body)
    assert rules[0] == CorsRule("one", ("PUT", "GET"), ("https://*.b",), ("*",), ("ETag",), 0)
    assert rules[1] == CorsRule(None, ("GET",), ("*",), (), (), None)
    assert cors.unpack(cors.pack(rules)) == rules
    assert render(rules).partition(b"\n")[2] == body.replace(
        b"<CORSConfiguration>", b"<CORSConfiguration " + NAMESPACE + b">"
    )


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (document(), S3Code.MalformedXML),
        (document(*[PLAIN] * 101), S3Code.MalformedXML),
        (document(b"<AllowedMethod>GET</AllowedMethod>"), S3Code.MalformedXML),
        (document(b"<AllowedOrigin>*</AllowedOrigin>"), S3Code.MalformedXML),
        (document(PLAIN + b"<AllowedMethods>GET</AllowedMethods>"), S3Code.MalformedXML),
        (document(b"<ID>" + b"a" * 256 + b"</ID>" + PLAIN), S3Code.MalformedXML),
        (document(PLAIN + b"<MaxAgeSeconds>-1</MaxAgeSeconds>"), S3Code.MalformedXML),
        (document(PLAIN + b"<MaxAgeSeconds>2147483648</MaxAgeSeconds>"), S3Code.MalformedXML),
        (document(PLAIN + b"<AllowedMethod>OPTIONS</AllowedMethod>"), S3Code.InvalidRequest),
        (document(PLAIN + b"<AllowedMethod>get</AllowedMethod>"), S3Code.InvalidRequest),
        (document(PLAIN + b"<AllowedOrigin>http://*.a.*</AllowedOrigin>"), S3Code.InvalidRequest),
        (document(PLAIN + b"<AllowedOrigin></AllowedOrigin>"), S3Code.InvalidRequest),
        (document(PLAIN + b"<AllowedHeader>x-*-*</AllowedHeader>"), S3Code.InvalidRequest),
        (document(PLAIN + b"<ExposeHeader>*</ExposeHeader>"), S3Code.InvalidRequest),
        (document(PLAIN + b"<ExposeHeader>a&#13;&#10;b: c</ExposeHeader>"), S3Code.InvalidRequest),
        (b'<!DOCTYPE a [<!ENTITY b "c">]>' + document(PLAIN), S3Code.MalformedXML),
    ],
)
def test_documents_refused(body: bytes, code: S3Code) -> None:
    with pytest.raises(S3Error) as caught:
        parse_rules(body)
    assert caught.value.code is code


def test_a_hundred_rules_are_served() -> None:
    assert len(parse_rules(document(*[PLAIN] * 100))) == 100


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("*", "", True),
        ("a", "a", True),
        ("a", "A", False),
        ("*suffix", "foo.suffix", True),
        ("*suffix", "foo.suffix.get", False),
        ("start*end", "startend", True),
        ("start*end", "start12end", True),
        ("start*end", "0start12end", False),
        ("aba*aba", "aba", False),
        ("prefix*", "bla.prefix", False),
    ],
)
def test_patterns(pattern: str, text: str, fits: bool) -> None:
    assert matches(pattern, text) is fits


@given(st.text("ab", max_size=4), st.text("ab", max_size=4), st.text("ab", max_size=6))
def test_a_star_stands_for_any_run(first: str, last: str, middle: str) -> None:
    assert matches(f"{first}*{last}", first + middle + last)


def test_the_first_rule_that_allows_everything_decides() -> None:
    rules = (rule("https://a", headers=("x-1",)), rule("https://*", headers=("X-AMZ-*",)), rule("*", "PUT"))
    assert find_rule(rules, "https://a", "GET") == (rules[0], "https://a")
    assert find_rule(rules, "https://a", "GET", ["x-amz-date", "x-amz-b"]) == (rules[1], "https://*")
    assert find_rule(rules, "https://a", "PUT") == (rules[2], "*")
    assert find_rule(rules, "https://a", "GET", ["x-2"]) is None
    assert find_rule(rules, "http://a", "GET") is None
    assert find_rule(rules, "http://a", "DELETE") is None


def test_lines_of_a_request() -> None:
    rules = (rule("https://*.test", "GET", "PUT", exposed=("ETag", "x-amz-meta-a")), rule("*", "HEAD"))
    assert lines_of_request(rules, {b"origin": b"https://a.test"}, "GET") == [
        (b"access-control-allow-origin", b"https://a.test"),
        (b"access-control-allow-methods", b"GET, PUT"),
        (b"access-control-expose-headers", b"ETag, x-amz-meta-a"),
        (b"access-control-allow-credentials", b"true"),
        VARY,
    ]
    assert lines_of_request(rules, {b"origin": b"evil"}, "HEAD") == [
        (b"access-control-allow-origin", b"*"),
        (b"access-control-allow-methods", b"HEAD"),
        VARY,
    ]
    assert lines_of_request(rules, {b"origin": b"evil"}, "GET") == [VARY]
    assert lines_of_request(
        rules, {b"origin": b"https://a.test", b"access-control-request-method": b"DELETE"}, "GET"
    ) == [VARY]
    assert lines_of_request(None, {b"origin": b"https://a.test"}, "GET") == []


def test_lines_of_a_preflight() -> None:
    rules = (CorsRule(None, ("PUT",), ("https://a",), ("x-amz-*", "Content-Type"), ("ETag",), 600),)
    asked = b"X-Amz-Date, content-type"
    fields = {
        b"origin": b"https://a",
        b"access-control-request-method": b"PUT",
        b"access-control-request-headers": asked,
    }
    assert lines_of_preflight(rules, fields) == [
        (b"access-control-allow-origin", b"https://a"),
        (b"access-control-allow-methods", b"PUT"),
        (b"access-control-expose-headers", b"ETag"),
        (b"access-control-allow-credentials", b"true"),
        (b"access-control-allow-headers", b"x-amz-date, content-type"),
        (b"access-control-max-age", b"600"),
        VARY,
    ]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, S3Code.BadRequest),
        ({b"origin": b"https://a"}, S3Code.BadRequest),
        ({b"access-control-request-method": b"GET"}, S3Code.BadRequest),
        ({b"origin": b"https://a", b"access-control-request-method": b"BREW"}, S3Code.BadRequest),
        ({b"origin": b"https://b", b"access-control-request-method": b"GET"}, S3Code.AccessForbidden),
        ({b"origin": b"https://a", b"access-control-request-method": b"PUT"}, S3Code.AccessForbidden),
        (
            {
                b"origin": b"https://a",
                b"access-control-request-method": b"GET",
                b"access-control-request-headers": b"x",
            },
            S3Code.AccessForbidden,
        ),
    ],
)
def test_preflights_refused(fields: dict[bytes, bytes], code: S3Code) -> None:
    for rules in ((rule("https://a"),), None):
        with pytest.raises(S3Error) as caught:
            lines_of_preflight(rules, fields)
        assert caught.value.code is code
    assert xml.legible(caught.value.message)
