"""The run profile: only settings that exist, and a configuration that the suite's own reader understands."""

import configparser

import pytest

from compatibility.profile import SECTIONS, SETTINGS, Account, configuration, environment, left_out
from gateway.settings.sources import setting_names

ACCOUNTS = {
    section: Account(f"id-{number}", f"name {number}", f"{number}@example.com", f"AK{number}", "s=e%c;r#et")
    for number, section in enumerate(SECTIONS)
}


def test_settings_that_do_not_exist_are_left_out() -> None:
    known = frozenset(name for name, _ in setting_names())
    variables = environment(known)
    assert variables["ISOTHERM_S3__NEW_BUCKET_DEFAULTS"] == "open"
    assert len(variables) + len(left_out(known)) == len(SETTINGS)
    assert environment(frozenset()) == {}


def test_configuration_reads_back() -> None:
    reader = configparser.RawConfigParser()
    reader.read_string(configuration(8080, ACCOUNTS))
    assert reader.defaults()["port"] == "8080"
    assert reader.get("s3 alt", "secret_key") == "s=e%c;r#et"
    assert reader.get("s3 main", "kms_keyid2") == "testkey-2"
    assert reader.get("s3 tenant", "tenant") == "testx"
    assert reader.get("iam root", "user_id") == "id-4"


def test_every_section_needs_its_account() -> None:
    with pytest.raises(AssertionError):
        configuration(8080, {"s3 main": ACCOUNTS["s3 main"]})
