"""Bodies end where their framing says, however the bytes arrive."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.framing import ChunkedFraming, Framing, FramingBroken, LengthFraming


def run(framing: Framing, wire: bytes, cuts: list[int]) -> tuple[bytes, int]:
    """Payload and bytes taken when `wire` comes in the pieces that `cuts` make."""
    got: list[bytes] = []
    taken, edges = 0, [0, *sorted(cut % (len(wire) + 1) for cut in cuts), len(wire)]
    for start, stop in itertools.pairwise(edges):
        if framing.done or start == stop:
            continue
        taken = start + framing.feed(b"?" + wire[start:stop], 1, lambda part: got.append(bytes(part))) - 1
    return b"".join(got), taken


CUTS = st.lists(st.integers(0, 10_000), max_size=12)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), CUTS, st.binary(max_size=20), st.booleans())
def test_chunked_payload_and_end(parts: list[bytes], cuts: list[int], behind: bytes, has_trailer: bool) -> None:
    wire = b"".join(b"%X;ext=1\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n"
    wire += b"x-trailer: 1\r\n\r\n" if has_trailer else b"\r\n"
    framing = ChunkedFraming()
    payload, taken = run(framing, wire + behind, cuts)
    assert framing.done
    assert payload == b"".join(parts)
    assert taken == len(wire)


@given(st.binary(min_size=1, max_size=200), CUTS, st.binary(max_size=20))
def test_length_payload_and_end(payload: bytes, cuts: list[int], behind: bytes) -> None:
    framing = LengthFraming(len(payload))
    assert run(framing, payload + behind, cuts) == (payload, len(payload))
    assert framing.done


@pytest.mark.parametrize(
    "wire",
    [
        *(b"5\nhello\r\n0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n", b"5\r\nhello\r\n0\n\r\n", b"5\r\nhello\r\n0\r\n\n"),
        *(
            b"+5\r\nhello\r\n",
            b"-5\r\n",
            b"0x5\r\nhello\r\n",
            b" 5\r\nhello\r\n",
            b"5 \r\nhello\r\n",
            b"\r\nhello\r\n",
            b"g\r\n",
        ),
        *(b"5\r\nhelloX\r\n", b"5\r\nhello\r\r\n", b"F" * 16 + b"\r\n", b"5;" + b"e" * 300 + b"\r\nhello\r\n"),
        *(
            b"5;\x00\r\nhello\r\n",
            b"0\r\nno colon\r\n\r\n",
            b"0\r\na : b\r\n\r\n",
            b"0\r\n" + b"a: b\r\n" * 2_000 + b"\r\n",
        ),
    ],
)
def test_broken_chunked_framing(wire: bytes) -> None:
    with pytest.raises(FramingBroken):
        run(ChunkedFraming(), wire, [])
    with pytest.raises(FramingBroken):
        run(ChunkedFraming(), wire, list(range(len(wire))))


def test_truncated_chunked_is_not_done() -> None:
    framing = ChunkedFraming()
    run(framing, b"5\r\nhel", [])
    assert not framing.done
