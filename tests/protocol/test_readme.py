"""The README's tour, typed in as it stands, against a live store; only the ports differ."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import ACCESS_KEY, ADMIN_TOKEN, SECRET_KEY, LiveStore
from tests.readme import blocks

pytestmark = [pytest.mark.protocol, pytest.mark.xdist_group("readme")]
BINARIES = Path(sys.executable).parent


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    with LiveStore(tmp_path_factory.mktemp("readme") / "data", workers=2) as live:
        yield live


def typed(store: LiveStore, text: str) -> str:
    """A block with the addresses of this store."""
    return text.replace("http://127.0.0.1:9000", store.endpoint).replace("http://127.0.0.1:9001", store.admin)


def run(store: LiveStore, folder: Path, *command: str) -> str:
    environment = {
        **os.environ,
        "PATH": f"{BINARIES}{os.pathsep}{os.environ['PATH']}",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "ISOTHERM_ADMIN_TOKEN": ADMIN_TOKEN,
        "ISOTHERM_ADMIN_URL": store.admin,
    }
    answer = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert answer.returncode == 0, f"{command}: {answer.stdout[-2000:]}{answer.stderr[-2000:]}"
    return answer.stdout


def test_tour(store: LiveStore, tmp_path: Path) -> None:
    tour = next(text for language, text in blocks()["A minute with boto3"] if language == "python")
    lines = run(store, tmp_path, sys.executable, "-c", typed(store, tour)).splitlines()
    assert lines[0] == "b'hello'"
    assert lines[1].startswith("notes/hello.txt 5 ")
    assert lines[2] == str((tmp_path / "checkpoint.bin").read_bytes()[:16])
    assert lines[3:] == ["b'hello'", "STANDARD_IA", "b'hello again'"]

    if all((BINARIES / name).exists() for name in ("aws", "s5cmd", "rclone")):
        (others,) = [text for _, text in blocks()["Other clients"]]
        run(store, tmp_path, "sh", "-ec", typed(store, others))
        body = (tmp_path / "checkpoint.bin").read_bytes()
        assert (tmp_path / "downloads" / "second.bin").read_bytes() == body
        client = store.client()
        assert client.get_object(Bucket="tour", Key="back/checkpoint.bin")["Body"].read() == body

    admin = next(text for language, text in blocks()["Admin API, users, metrics"] if language == "sh")
    out = run(store, tmp_path, "sh", "-ec", typed(store, admin).replace("curl -s", "curl -sf"))
    assert '"name":"tour"' in out
    assert "secret_key" in out
