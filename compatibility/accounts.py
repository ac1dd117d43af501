"""Accounts for the suite, made through the admin API as any operator would make them."""

import json
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import boto3
from botocore.config import Config

from compatibility.profile import REGION, SECTIONS, TENANT, Account
from gateway.admin.documents import NewUser

_KNOWN_TRIES: Final = 100
_KNOWN_PAUSE_SECONDS: Final = 0.1
"""Data workers look for new credentials every `auth.poll_seconds`, a second by default."""


@dataclass(frozen=True, slots=True)
class Admin:
    """The admin API at `url`, spoken to with a token of scope admin, and the S3 port at `endpoint`."""

    url: str
    token: str
    endpoint: str

    def post(self, path: str, document: Mapping[str, str]) -> dict[str, Any]:
        """The answer's document. Errors: HTTPError for anything but success."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        body = json.dumps(document).encode()
        request = urllib.request.Request(f"{self.url}/admin/v1{path}", data=body, headers=headers, method="POST")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return dict(json.load(answer))

    def display_name(self, access_key: str, secret_key: str) -> str:
        """The name under which S3 shows the owner of an access key; the suite wants to be told."""
        make: Any = boto3.client  # its stubs know the services by literal names
        client = make(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=access_key,
            aws_secret_access_key=secret_key,
            config=Config(s3={"addressing_style": "path"}),
        )
        for _ in range(_KNOWN_TRIES):
            try:
                return str(client.list_buckets()["Owner"].get("DisplayName", ""))
            except client.exceptions.ClientError as error:
                if error.response["Error"]["Code"] != "InvalidAccessKeyId":
                    raise
            time.sleep(_KNOWN_PAUSE_SECONDS)
        raise SystemExit("the store does not know the access keys that it made")


def make_accounts(admin: Admin, worker: str) -> dict[str, Account]:
    """One account a section for one process of the suite, with a name and an address of its own."""
    return {section: _make(admin, section, f"{section.replace(' ', '-')}-{worker}") for section in SECTIONS}


def _make(admin: Admin, section: str, name: str) -> Account:
    email = f"{name}@example.com"
    tenant = TENANT if section == "s3 tenant" else ""
    wanted = {"name": name, "email": email, "tenant": tenant}
    document = {field: value for field, value in wanted.items() if value and field in NewUser.model_fields}
    user = admin.post("/users", document)
    key = admin.post(f"/users/{user['id']}/keys", {})
    access_key, secret_key = key["access_key_id"], key["secret_key"]
    return Account(user["id"], admin.display_name(access_key, secret_key), email, access_key, secret_key, tenant)
