import random
import stat
from pathlib import Path

import pytest

from gateway.auth.secrets import (
    MasterKeyRefused,
    SecretBox,
    SecretUnreadable,
    create_master_key,
    generate_access_key,
    load_master_key,
)

MASTER = bytes(range(32))


def make_box(master: bytes = MASTER) -> SecretBox:
    return SecretBox(master, random.Random(1).randbytes)


def test_envelope_opens_for_its_own_row_only() -> None:
    box = make_box()
    envelope = box.seal(b"secret", principal_id="p", access_key_id="k")
    assert box.open(envelope, principal_id="p", access_key_id="k") == b"secret"
    assert b"secret" not in envelope
    for owner, key in (("q", "k"), ("p", "l"), ("", "pk"), ("pk", "")):
        with pytest.raises(SecretUnreadable):
            box.open(envelope, principal_id=owner, access_key_id=key)
    with pytest.raises(SecretUnreadable):
        make_box(bytes(32)).open(envelope, principal_id="p", access_key_id="k")


def test_any_changed_byte_is_refused() -> None:
    box = make_box()
    envelope = box.seal(b"secret", principal_id="p", access_key_id="k")
    for at in range(len(envelope)):
        changed = envelope[:at] + bytes([envelope[at] ^ 1]) + envelope[at + 1 :]
        for broken in (changed, envelope[:at]):
            with pytest.raises(SecretUnreadable):
                box.open(broken, principal_id="p", access_key_id="k")


def test_each_envelope_has_its_own_nonce() -> None:
    box = make_box()
    envelopes = {box.seal(b"secret", principal_id="p", access_key_id="k") for _ in range(8)}
    assert len({envelope[1:13] for envelope in envelopes}) == 8


def test_master_key_file(tmp_path: Path) -> None:
    path = tmp_path / "master"
    key = create_master_key(path, random.Random(2).randbytes)
    assert load_master_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        create_master_key(path, random.Random(3).randbytes)
    assert load_master_key(path) == key


@pytest.mark.parametrize(
    ("text", "mode"), [(None, 0), ("AAAA\n", 0o600), ("not base64!", 0o600), ("A" * 43 + "=", 0o640)]
)
def test_master_key_refused(tmp_path: Path, text: str | None, mode: int) -> None:
    path = tmp_path / "master"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    with pytest.raises(MasterKeyRefused):
        load_master_key(path)


def test_generated_keys() -> None:
    access_key_id, secret = generate_access_key(random.Random(4).randbytes)
    assert (len(access_key_id), len(secret)) == (20, 40)
    assert access_key_id.isalnum()
    assert access_key_id.isupper()
    assert generate_access_key(random.Random(5).randbytes) != (access_key_id, secret)
