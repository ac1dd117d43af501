"""Wildcards and variables: anchored, literal where they should be, linear whatever is given."""

import fnmatch
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.policy.malformed import MalformedPolicy
from gateway.auth.policy.patterns import HOLED_CHARACTERS_MAX, PATTERN_CHARACTERS_MAX, Pattern, tokenise
from tests.unit.auth.policy.asking import Values


def matches(pattern: str, text: str, values: dict[str, str | Sequence[str]] | None = None) -> bool:
    compiled = Pattern(tokenise(pattern, with_wildcards=True, with_variables=True))
    return compiled.matches(text, Values(values))


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("bucket", "bucket", True),
        ("bucket", "bucket/k", False),
        ("bucket/*", "bucket", False),
        ("bucket/*", "bucket/", True),
        ("bucket/*", "bucket2/k", False),
        ("*", "", True),
        ("**", "x", True),
        ("?", "", False),
        ("?", "\n", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "acb", False),
        ("*ab?ab*", "ababxab", True),
        ("*a?*a", "aa", False),
        ("*a?*a", "axa", True),
        ("ab*ab", "ab", False),
        ("*aa*aa*", "aaab", False),
        ("*aa*a?*", "aaa", False),
        ("*aa*a?*", "aaab", True),
        ("Key", "key", False),
        (".*", "x", False),
        ("[a]", "a", False),
        ("${*}", "*", True),
        ("${*}", "x", False),
        ("${?}${$}", "?$", True),
        ("home/${aws:username}/*", "home/ann/x", True),
        ("home/${AWS:UserName}/*", "home/ann/x", True),
        ("home/${aws:username}/*", "home/bob/x", False),
        ("${aws:userid, 'none'}", "none", True),
        ("${aws:userid}", "", False),
        ("${aws:referer}", "anything", False),
        ("${s3:prefix}", "a", False),
    ],
)
def test_matching(pattern: str, text: str, expected: bool) -> None:
    values = {"aws:username": "ann", "aws:referer": "any*", "s3:prefix": ("a", "b")}
    assert matches(pattern, text, values) is expected


@pytest.mark.parametrize(
    "pattern", ["${aws:username", "${aws:userid, none}", "${aws:userid, '}", "x" * 2049, "x" * 512 + "?"]
)
def test_malformed(pattern: str) -> None:
    with pytest.raises(MalformedPolicy):
        matches(pattern, "x")


@given(st.text("ab*?\n[", max_size=12), st.text("ab\n[", max_size=16))
def test_equals_a_regular_expression(pattern: str, text: str) -> None:
    plain = "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in pattern)
    assert matches(pattern, text) is (re.fullmatch(plain, text, re.DOTALL) is not None)
    if "[" not in pattern:
        assert matches(pattern, text) is fnmatch.fnmatchcase(text, pattern)


def test_steps_grow_with_the_text_only() -> None:
    """What makes a backtracking matcher run for ages: many stars, nearly matching runs."""
    stars = "*a?" * (HOLED_CHARACTERS_MAX // 3)
    assert not matches(stars + "b", "a" * 16000 + "c" * 700)
    assert not matches("*" + "a" * 500 + "?b*", "a" * 16000)
    assert not matches("*ab" * (PATTERN_CHARACTERS_MAX // 3), "ab" * 600 + "a" * 16000)
