"""Asynchronous client of a Sandkasten daemon, without dependencies."""

from .client import SandboxClient
from .errors import SandboxError
from .exec_stream import ExecStream
from .results import ExecInfo, ExecResult, OutputChunk, PortInfo, SessionInfo
from .session import Session

__all__ = [
    "ExecInfo",
    "ExecResult",
    "ExecStream",
    "OutputChunk",
    "PortInfo",
    "SandboxClient",
    "SandboxError",
    "Session",
    "SessionInfo",
]
