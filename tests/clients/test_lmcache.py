"""LMCache's S3 connector, which speaks virtual-hosted style only: the store has a domain, and the client's own `hosts`
file, seen by no other process, says where the bucket's name is.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.running import PROGRAMS, interpreter, run
from tests.live import LiveStore

pytestmark = [pytest.mark.protocol, pytest.mark.nightly]
DOMAIN, BUCKET = "s3.store.test", "client-lmcache"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LiveStore]:
    with LiveStore(tmp_path / "data", workers=2, ISOTHERM_SERVER__DOMAINS=DOMAIN) as live:
        yield live


def can_mount() -> bool:
    """Whether this user may give a process mounts of its own."""
    probe = ["unshare", "--mount", "true"]
    return os.geteuid() == 0 and subprocess.run(probe, capture_output=True, check=False).returncode == 0


def test_program(store: LiveStore, tmp_path: Path) -> None:
    if not can_mount():
        pytest.skip("a hosts file for one process needs root and unshare(1)")
    python = interpreter("lmcache")
    store.client().create_bucket(Bucket=BUCKET)
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {BUCKET}.{DOMAIN}\n")
    script = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
    program = [python, PROGRAMS / "lmcache_program.py", f"{BUCKET}.{DOMAIN}:{store.port}"]
    said = run(store, "unshare", "--mount", "sh", "-c", script, "sh", hosts, *program)
    assert "bytes a block" in said
    assert store.client().list_objects_v2(Bucket=BUCKET)["KeyCount"] == 6
