"""Functions for agents: a sandbox's commands and files, with answers written for a model."""

from __future__ import annotations

from ..errors import SandboxError
from .session import Session

MAX_READ_BYTES = 262_144
_OUTPUT_BUDGET_BYTES = 65_536


class SandboxTools:
    """An agent's tools in one session. Failures are returned as text that says what to do."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def exec(self, cmd: str, timeout_seconds: int = 120) -> str:
        """Run a shell command in the sandbox. The directory and variables stay for the next command.

        Args:
            cmd: The command, as typed at a prompt.
            timeout_seconds: The command is killed after this time.
        """
        try:
            result = await self._session.exec(
                cmd, timeout_ms=timeout_seconds * 1000, output_budget_bytes=_OUTPUT_BUDGET_BYTES
            )
        except SandboxError as error:
            if error.result is None:
                return f"error: {error}"
            note = f"the command was killed after {timeout_seconds} seconds"
            return f"exit=124\ncwd={error.result.cwd}\n---\n{error.result.output}\n[{note}]"
        return f"exit={result.exit_code}\ncwd={result.cwd}\n---\n{result.output}"

    async def write_file(self, path: str, content: str) -> str:
        """Write a text file in the sandbox, replacing what is there.

        Args:
            path: Absolute, or relative to /workspace.
            content: The whole content of the file.
        """
        try:
            await self._session.write(path, content)
        except SandboxError as error:
            return f"error: {error}"
        return f"wrote {path}"

    async def read_file(self, path: str) -> str:
        """Read a text file in the sandbox.

        Args:
            path: Absolute, or relative to /workspace.
        """
        try:
            data = await self._session.read(path, MAX_READ_BYTES + 1)
        except SandboxError as error:
            return f"error: {error}"
        text = data[:MAX_READ_BYTES].decode(errors="replace")
        if len(data) <= MAX_READ_BYTES:
            return text
        return f"{text}\n[only the first {MAX_READ_BYTES} bytes; use exec for the rest]"

    async def list_files(self, path: str = "/workspace") -> str:
        """List a directory in the sandbox: type, size and path of each entry.

        Args:
            path: Absolute, or relative to /workspace.
        """
        try:
            entries = [entry async for entry in self._session.files.list(path)]
        except SandboxError as error:
            return f"error: {error}"
        return "\n".join(f"{entry.type} {entry.size} {entry.path}" for entry in entries)
