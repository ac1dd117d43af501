"""The server_log section of the settings."""

from typing import Self

from pydantic import Field, model_validator

from gateway.settings.section import Seconds, Section

MEBIBYTE = 1 << 20


class ServerLogs(Section):
    """Server access logs of buckets, delivered into buckets."""

    flush_seconds: Seconds = Field(default=300.0, description="Lines of logged requests wait so long for delivery.")
    buffer_bytes: int = Field(
        default=16 * MEBIBYTE,
        ge=MEBIBYTE,
        le=1024 * MEBIBYTE,
        description="Lines that may wait in one worker; more are dropped and counted, and all are lost with it.",
    )
    object_bytes: int = Field(
        default=4 * MEBIBYTE, ge=4096, le=64 * MEBIBYTE, description="So many bytes of lines are delivered at once."
    )

    @model_validator(mode="after")
    def _check_relations(self) -> Self:
        if self.object_bytes > self.buffer_bytes:
            raise ValueError("object_bytes must not exceed buffer_bytes: nothing would ever be full")
        return self
