"""What has to be asked of `gateway.auth.decision` about one request, and with which facts.

The decision itself is pure and lies there; here are the look-ups that it may depend on: the version concerned when its
owner, list or tags count. Nothing is looked up, and nothing of this built, for whoever owns everything undisputed.
"""

from asyncio import sleep
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from gateway.auth.authenticator import Authenticated
from gateway.auth.decision import OF_OBJECT_OWNER, Ask, BucketRules, ObjectRules, decide, may_allow
from gateway.http.call import Call
from gateway.s3.addressing import parse_copy_source
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.facts import Facts
from gateway.s3.permissions import BYPASS_GOVERNANCE, CONDITIONAL, CREATORS, EXISTING, copies_tags, further_actions
from metadata.types import Bucket, Version
from tiers.errors import DeleteMarkerFound, KeyNotFound, VersionNotFound
from tiers.namespace.objects import Objects
from tiers.namespace.types import DeleteTarget

_JUDGED_AT_ONCE: Final = 32
"""Keys of a DeleteObjects judged in one turn of the event loop."""


@dataclass(frozen=True, slots=True)
class Access:
    """A request as far as access goes. `document` is its body where a condition of the policy may ask for it."""

    call: Call
    query: Mapping[str, str]
    fields: Mapping[bytes, bytes]
    caller: Authenticated
    bucket: Bucket
    rules: BucketRules
    key: str
    objects: Objects
    region: str
    clock: Callable[[], float]
    document: bytes | None = None

    async def judge(self, action: str, version: Version | None, *, is_found: bool) -> None:
        """Let the request go on when every action that it needs is allowed.

        `is_found`: the version was looked for, and None means that it is absent. Errors: AccessDenied.
        """
        operation = self.call.operation
        if operation == "DeleteObjects":  # each key is judged alone, by `permit_deletions`
            self._judge_batch(action)
            return
        if operation == "BatchHead":  # the same, by `permit_reads`, and an object's own list may let in anybody
            return
        creates, is_conditional = operation in CREATORS, b"if-match" in self.fields and operation in CONDITIONAL
        if version is None and not is_found and self._depends(action, creates=creates, is_conditional=is_conditional):
            version = await self._find(self.key, self.query.get("versionId"))
        asked = self._asked(self.key, self.query.get("versionId"), version)._replace(creates=creates)
        if version is None and is_found:
            self._require_listing(asked, action)
            return
        _require(asked, action)
        for further in further_actions(operation, self.fields, self.bucket.owner_id):
            _require(asked, further)
        if is_conditional and version is not None:
            _require(asked._replace(creates=False), "s3:GetObject")
        if version is None and (is_conditional or operation in EXISTING):
            self._require_listing(asked, action)

    def _judge_batch(self, action: str) -> None:
        """Whether some key might be deleted: who may delete none is refused before any key is known."""
        if not may_allow(self.caller.principal, self.bucket.owner_id, self.rules, action):
            raise S3Error(S3Code.AccessDenied)

    def judge_source(self, action: str, version: Version | None) -> None:
        """The same for the source of a copy; tags that are copied need a permission of their own."""
        source = parse_copy_source(self.fields[b"x-amz-copy-source"])
        word = "Object" if source.version_id is None else "ObjectVersion"
        asked = self._asked(source.key, source.version_id, version)
        if version is None:
            self._require_listing(asked, action.replace("Object", word))
            return
        _require(asked, action.replace("Object", word))
        if version.tags and copies_tags(self.call.operation, self.fields):
            _require(asked, f"s3:Get{word}Tagging")

    def judge_renamed(self, key: str, version: Version | None) -> None:
        """The same for the source of a rename, which is read and deleted there, its tags with it."""
        asked = self._asked(key, None, version)
        if version is None:
            self._require_listing(asked, "s3:GetObject")
            return
        for action in ("s3:GetObject", "s3:DeleteObject", *(["s3:GetObjectTagging"] if version.tags else [])):
            _require(asked, action)

    async def permit_reads(self, targets: Sequence[tuple[str, Version | None]]) -> list[bool]:
        """Whether a HEAD of each key, given its current version, would be told more than AccessDenied."""
        permitted: list[bool] = []
        for count, (key, version) in enumerate(targets):
            if count % _JUDGED_AT_ONCE == 0:
                await sleep(0)
            asked = self._asked(key, None, version)
            permitted.append(
                self._may_learn(asked, "s3:GetObject") if version is None else _allows(asked, "s3:GetObject")
            )
        return permitted

    def may(self, action: str, version: Version | None) -> bool:
        """Whether the caller may also do `action` to what the request names."""
        return _allows(self._asked(self.key, self.query.get("versionId"), version), action)

    async def permit_deletions(self, targets: Sequence[DeleteTarget]) -> list[DeleteTarget | None]:
        """The targets that the caller may delete, None for the others."""
        permitted: list[DeleteTarget | None] = []
        for count, target in enumerate(targets):
            if count % _JUDGED_AT_ONCE == 0:
                await sleep(0)  # a large policy and a thousand keys must not keep other requests waiting
            permitted.append(await self._permit_deletion(target))
        return permitted

    async def _permit_deletion(self, target: DeleteTarget) -> DeleteTarget | None:
        is_conditional, version = target.conditions.if_match is not None, None
        if is_conditional or self._asks_tags:
            version = await self._find(target.key, target.version_id)
        asked = self._asked(target.key, target.version_id, version)
        if not _allows(asked, "s3:DeleteObject" if target.version_id is None else "s3:DeleteObjectVersion"):
            return None
        if is_conditional and not (
            self._may_learn(asked, "s3:GetObject") if version is None else _allows(asked, "s3:GetObject")
        ):
            return None
        bypasses = target.bypasses_governance and _allows(asked, BYPASS_GOVERNANCE)
        return replace(target, bypasses_governance=bypasses)

    @property
    def _asks_tags(self) -> bool:
        return self.rules.policy is not None and self.rules.policy.asks_existing_tags

    def _depends(self, action: str, *, creates: bool, is_conditional: bool) -> bool:
        """Whether the verdict may depend on the version that is there."""
        if creates or not self.key:
            return is_conditional
        return is_conditional or action in OF_OBJECT_OWNER or self._asks_tags or self.call.operation in EXISTING

    async def _find(self, key: str, version_id: str | None) -> Version | None:
        """The version a verdict depends on, None when there is none with content."""
        try:
            return (await self.objects.find(self.bucket.name, key, version_id)).version
        except (KeyNotFound, VersionNotFound, DeleteMarkerFound):
            return None

    def _require_listing(self, asked: Ask, action: str) -> None:
        if not self._may_learn(asked, action):
            raise S3Error(S3Code.AccessDenied)

    def _may_learn(self, asked: Ask, action: str) -> bool:
        """Whether the caller may be told that a version is absent: who could list it may, unless `action` is denied."""
        verdict = decide(asked._replace(action=action))
        facts = partial(self._facts, None, b"", asked.resource.partition("/")[2])
        is_denied = verdict.by == "policy" and not verdict.is_allowed
        return not is_denied and _allows(asked._replace(resource=self.bucket.name, context=facts), "s3:ListBucket")

    def _asked(self, key: str, version_id: str | None, version: Version | None) -> Ask:
        """What to ask about one resource, but for the action."""
        bucket, tags = self.bucket, b"" if version is None else version.tags
        found = None if version is None else ObjectRules(version.owner_id, version.acl)
        return Ask(
            self.caller.principal,
            "",
            bucket.owner_id,
            f"{bucket.name}/{key}" if key else bucket.name,
            self.rules,
            partial(self._facts, version_id, tags),
            found,
        )

    def _facts(self, version_id: str | None, tags: bytes, prefix: str | None = None) -> Facts:
        owner_id, now = self.bucket.owner_id, self.clock()
        return Facts(
            self.call,
            self.query,
            self.fields,
            self.caller,
            owner_id,
            self.region,
            now,
            version_id,
            tags,
            self.document,
            prefix,
        )


def _allows(asked: Ask, action: str) -> bool:
    return decide(asked._replace(action=action)).is_allowed


def _require(asked: Ask, action: str) -> None:
    if not _allows(asked, action):
        raise S3Error(S3Code.AccessDenied)
