import dataclasses
import json

import pytest

from metadata.types import TierRow
from tiers.catalogue import AccessMode, Catalogue, Durability, FailureDomain, Tier, Watermarks, parse_tier
from tiers.errors import StorageClassUnknown


def default() -> Catalogue:
    return Catalogue(Catalogue.default_tiers(), Catalogue.default_devices("/data"))


def row(**changes: object) -> TierRow:
    fields = json.loads(Catalogue.default_tiers()[1].descriptor) | changes
    return TierRow("hot", json.dumps({name: value for name, value in fields.items() if value is not ...}))


@pytest.mark.parametrize(
    ("storage_class", "tier"),
    [
        ("EXPRESS_ONEZONE", "gpu"), ("GPU_DIRECT", "gpu"), ("STANDARD", "hot"), ("REDUCED_REDUNDANCY", "hot"),
        ("INTELLIGENT_TIERING", "hot"), ("STANDARD_IA", "warm"), ("ONEZONE_IA", "warm"), ("GLACIER_IR", "warm"),
        ("GLACIER", "cold"), ("DEEP_ARCHIVE", "cold"), ("gpu", "gpu"),
        ("hot", "hot"), ("warm", "warm"), ("cold", "cold"),
    ],
)  # fmt: skip
def test_default_storage_classes(storage_class: str, tier: str) -> None:
    assert default().tier_of(storage_class) == tier


@pytest.mark.parametrize("storage_class", ["OUTPOSTS", "", "standard", "HOT"])
def test_unknown_storage_class(storage_class: str) -> None:
    with pytest.raises(StorageClassUnknown):
        default().tier_of(storage_class)


def test_default_layouts_copies_and_devices() -> None:
    catalogue = default()
    assert [tier.name for tier in catalogue.tiers()] == ["gpu", "hot", "warm", "cold"]
    assert [catalogue.layout(tier) for tier in ("gpu", "hot")] == ["1+1:4194304", "4+2:4194304"]
    assert [catalogue.pack_copies(tier) for tier in ("gpu", "hot", "warm", "cold")] == [2, 3, 3, 3]
    assert [len(catalogue.devices(tier)) for tier in ("gpu", "hot", "warm", "cold")] == [2, 6, 6, 6]
    first = catalogue.devices("hot")[0]
    assert (first.device_id, first.location, first.host) == ("hot-0", "/data/devices/hot-0", "local")
    assert catalogue.find_device("hot-5") is catalogue.devices("hot")[5]


def test_only_active_devices_are_writable() -> None:
    devices = [d._replace(state=1) if d.device_id == "hot-3" else d for d in Catalogue.default_devices("/data")]
    catalogue = Catalogue(Catalogue.default_tiers(), devices)
    assert "hot-3" in {d.device_id for d in catalogue.devices("hot")}
    assert "hot-3" not in {d.device_id for d in catalogue.writable("hot")}


def test_a_tier_survives_its_descriptor() -> None:
    tier = Tier(
        "deep",
        7,
        "8+3:8388608",
        4,
        ("DEEP",),
        Watermarks(80, 70, 60),
        AccessMode.RESTORE,
        Durability.FULL,
        FailureDomain.RACK,
        "tape",
    )
    parsed = parse_tier(TierRow("deep", tier.to_json()))
    assert parsed == tier
    assert all(type(a) is type(b) for a, b in zip(dataclasses.astuple(parsed), dataclasses.astuple(tier), strict=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"colour": "red"}, {"layout": ...}, {"layout": "4+2"}, {"layout": "0+2:4096"}, {"layout": 5},
        {"layout": "4+0:4194304"}, {"rank": "1"}, {"rank": True}, {"pack_copies": 2}, {"pack_copies": 3.0},
        {"storage_classes": ""}, {"storage_classes": "AB"}, {"storage_classes": [1]}, {"storage_classes": None},
        {"access_mode": "sometimes"}, {"spread": "planet"}, {"watermarks": {"high": 10}}, {"watermarks": {"top": 90}},
        {"watermarks": []}, {"watermarks": {"high": 101}}, {"watermarks": {"high": "90"}}, {"medium": 3},
    ],
)  # fmt: skip
def test_refused_descriptors(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_tier(row(**changes))


def test_a_tier_without_parity_must_say_so() -> None:
    assert parse_tier(row(layout="4+0:4194304", durability="none")).durability is Durability.NONE


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '"x"'])
def test_a_descriptor_is_an_object(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_tier(TierRow("hot", text))


def test_contradictions_between_rows_are_refused() -> None:
    tiers, devices = Catalogue.default_tiers(), Catalogue.default_devices("/data")
    twin = TierRow("hotter", tiers[1].descriptor)
    for bad_tiers, bad_devices in [
        ([*tiers, twin], devices),
        ([*tiers, tiers[0]], devices),
        (tiers, [*devices, devices[0]]),
        (tiers[1:], devices),
        (tiers, [*devices, devices[0]._replace(device_id="a b")]),
    ]:
        with pytest.raises(ValueError, match=r".+"):
            Catalogue(bad_tiers, bad_devices)
