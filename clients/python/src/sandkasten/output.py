"""Assembles output from chunks."""

from __future__ import annotations

import base64
import codecs
from collections.abc import Mapping
from typing import Any

from .types import OutputChunk, OutputStream

_new_decoder = codecs.getincrementaldecoder("utf-8")


class OutputAssembler:
    """Tracks how far the output was delivered, and incomplete characters."""

    def __init__(self, cursor: int, is_filtered: bool) -> None:
        self.cursor = cursor
        """The offset of the first byte that was not delivered."""
        self._is_filtered = is_filtered
        self._skipped = 0
        self._decoders: dict[OutputStream, codecs.IncrementalDecoder] = {
            "stdout": _new_decoder(errors="replace"),
            "stderr": _new_decoder(errors="replace"),
        }
        self._last: OutputChunk | None = None

    def skip(self, count: int) -> None:
        """Records bytes that can no longer be read."""
        if self._is_filtered:
            self._skipped += count

    def add(self, body: Mapping[str, Any]) -> list[OutputChunk]:
        """The new part of a chunk."""
        exact = body.get("chunk_base64")
        data = body["chunk"].encode() if exact is None else base64.b64decode(exact)
        known = max(0, self.cursor - body["offset"])
        if known >= len(data):
            return []
        data = data[known:]
        offset = body["offset"] + known
        stream: OutputStream = body["stream"]
        chunk = OutputChunk(
            stream=stream,
            text=self._decoders[stream].decode(data),
            data=data,
            seq=body["seq"],
            timestamp=body["timestamp"],
            offset=offset,
            # With one stream only, the offsets between its chunks belong to the other stream.
            skipped_bytes=self._skipped if self._is_filtered else offset - self.cursor,
        )
        self._skipped = 0
        self.cursor = offset + len(data)
        self._last = chunk
        return [chunk]

    def flush(self) -> list[OutputChunk]:
        """The text of characters that were never completed. Their bytes were delivered before."""
        if self._last is None:
            return []
        streams: tuple[OutputStream, ...] = ("stdout", "stderr")
        texts = [(stream, self._decoders[stream].decode(b"", final=True)) for stream in streams]
        seq, timestamp = self._last.seq, self._last.timestamp
        return [
            OutputChunk(stream, text, b"", seq, timestamp, self.cursor, 0)
            for stream, text in texts
            if text
        ]
