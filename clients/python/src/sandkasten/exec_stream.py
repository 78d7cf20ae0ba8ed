"""A command whose output is read while it runs."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from .errors import SandboxError
from .results import ExecInfo, OutputChunk, from_body
from .transport import Transport


class ExecStream:
    """Starts the command when it is iterated over, which can be done once.

    Leaving the loop does not end the command. One whose time was up raises `COMMAND_TIMEOUT` after
    its last chunk.
    """

    def __init__(self, transport: Transport, path: str, body: dict[str, Any]) -> None:
        self._transport = transport
        self._path = path
        self._body = {**body, "raw_output": True}
        self._begun = False
        self.result: ExecInfo | None = None
        """How the command ended; None until its output has been read to the end."""

    async def __aiter__(self) -> AsyncIterator[OutputChunk]:
        if self._begun:
            raise RuntimeError("the command runs already; ask for another stream to run it again")
        self._begun = True
        skipped = 0
        async with aclosing(self._transport.events(self._path, self._body)) as events:
            async for name, data in events:
                if name == "skipped":
                    skipped += data["skipped_bytes"]
                elif name == "chunk":
                    yield _chunk(data, skipped)
                    skipped = 0
                elif name == "done":
                    self.result = from_body(ExecInfo, data)
                    return
                elif name == "error":
                    self._fail(data)
        message = f"POST {self._path}: the output broke off; the command may still run"
        raise SandboxError("CONNECTION_FAILED", 0, message)

    def _fail(self, data: dict[str, Any]) -> None:
        info = data.get("exec")
        if info is not None:
            self.result = from_body(ExecInfo, info)
        # The answer had begun as a success, so the failure has no HTTP status of its own.
        raise SandboxError(data.get("error_code", "INTERNAL_ERROR"), 200, data["error"], info)


def _chunk(data: dict[str, Any], skipped_bytes: int) -> OutputChunk:
    exact = data.get("chunk_base64")
    return OutputChunk(
        stream=data["stream"],
        text=data["chunk"],
        data=data["chunk"].encode() if exact is None else base64.b64decode(exact),
        seq=data["seq"],
        timestamp=data["timestamp"],
        offset=data["offset"],
        skipped_bytes=skipped_bytes,
    )
