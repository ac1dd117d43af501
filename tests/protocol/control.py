"""boto3's client of the control API, which always puts the account in front of the host."""

import socket
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.live import ACCESS_KEY, REGION, SECRET_KEY, LiveStore

ACCOUNT = "123456789012"
DOMAIN = "s3.test"


def control_client(store: LiveStore, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of a store that is known as `DOMAIN`; names below it resolve to this machine from now on."""
    resolve = socket.getaddrinfo

    def resolve_here(host: Any, *arguments: Any, **options: Any) -> Any:
        return resolve("127.0.0.1" if str(host).endswith(DOMAIN) else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_here)
    make: Any = boto3.client  # its stubs know the services by literal names
    return make(
        "s3control",
        endpoint_url=f"http://{DOMAIN}:{store.port}",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name=REGION,
        config=Config(retries={"max_attempts": 0}),
    )
