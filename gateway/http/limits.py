"""Every limit of a connection in one place, with the reason beside it."""

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may cost. Sizes in bytes, times in seconds. Wrong combinations raise ValueError."""

    header_block_bytes: int = 16 * KIB
    header_count: int = 100
    target_bytes: int = 8 * KIB
    """A key of 1,024 bytes percent-encoded is 3 KiB; a presigned query with a session token fits in the rest."""

    header_seconds: float = 10.0
    """From the first byte (or the connection's start) to the end of the header block; absolute, not extended."""

    idle_seconds: float = 15.0
    """Between two requests of a kept connection; settings offer 5 to 60."""

    body_silence_seconds: float = 15.0
    body_rate_bytes: int = KIB
    """Least average bytes a second, judged once the server has waited `body_silence_seconds` for the client."""

    send_silence_seconds: float = 120.0
    """A reader that takes nothing for so long is cut; generous, because training loops pause between reads."""

    linger_seconds: float = 2.0
    """After a refusal the client's bytes are read and thrown away so long, or a reset would eat the answer."""

    drain_bytes: int = MIB
    """An unread body up to here is read and thrown away to keep the connection; a longer one closes it."""

    parsed_body_bytes: int = 128 * KIB
    """Longer bodies with a Content-Length are received straight into the reader's memory."""

    chunked_buffer_bytes: int = 256 * KIB
    send_buffer_bytes: int = 256 * KIB
    send_turn_bytes: int = 4 * MIB
    """One answer sends so much before the event loop serves the others."""

    vigil_seconds: float = 0.0001
    """After bytes of a lone client the loop stays awake so long, so that its next request need not wake it."""

    sweep_seconds: float = 0.5
    """How often deadlines are looked at; they fire at most so late."""

    def __post_init__(self) -> None:
        if self.target_bytes >= self.header_block_bytes:
            raise ValueError("target_bytes must leave room for headers in header_block_bytes")
        seconds = (self.header_seconds, self.idle_seconds, self.body_silence_seconds, self.send_silence_seconds)
        if min(seconds) <= 0 or self.sweep_seconds <= 0:
            raise ValueError("every deadline must be positive")
