"""What is kept of buckets by revision stays within its bounds and never gets older."""

from metadata.types import Bucket
from tiers.namespace.revised import ENTRY_BYTES, Revised


def bucket(bucket_id: int, revision: int) -> Bucket:
    return Bucket(f"b{bucket_id}", bucket_id, "owner", 1, 0, "us-east-1", 0, 0, 0, revision)


def test_a_value_is_found_for_its_revision_alone() -> None:
    kept: Revised[str] = Revised()
    kept.keep(bucket(1, 5), "five", 4)
    assert kept.find(bucket(1, 5)) == "five"
    assert kept.find(bucket(1, 6)) is None
    kept.keep(bucket(1, 6), "six", 3)
    kept.keep(bucket(1, 5), "five", 4)  # by a request that holds an older row
    assert kept.find(bucket(1, 6)) == "six"
    assert kept.find(bucket(1, 5)) is None
    assert kept.byte_count == 3 + ENTRY_BYTES


def test_the_oldest_go_beyond_either_bound() -> None:
    kept: Revised[int] = Revised(count_max=3, bytes_max=10_000)
    for number in range(5):
        kept.keep(bucket(number, 1), number, 10)
    assert [kept.find(bucket(number, 1)) for number in range(5)] == [None, None, 2, 3, 4]
    kept.keep(bucket(9, 1), 9, 9000)
    assert [kept.find(bucket(number, 1)) for number in (3, 4, 9)] == [None, None, 9]
    kept.keep(bucket(8, 1), 8, 10_000)
    assert kept.find(bucket(8, 1)) is None, "larger than all there is room for"
    assert kept.find(bucket(9, 1)) == 9
    assert kept.byte_count == 9000 + ENTRY_BYTES
