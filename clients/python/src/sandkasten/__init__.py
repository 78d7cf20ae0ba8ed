"""Client of a Sandkasten daemon: `SandboxClient` for asyncio, `SyncSandboxClient` for everything else."""

from ._async.client import SandboxClient
from ._async.execs import Exec, ExecStream
from ._async.files import Files
from ._async.keys import Keys
from ._async.session import Session
from ._async.sockets import PortConnection, Pty
from ._sync.client import SyncSandboxClient
from ._sync.execs import SyncExec, SyncExecStream
from ._sync.files import SyncFiles
from ._sync.keys import SyncKeys
from ._sync.session import SyncSession
from ._sync.sockets import SyncPortConnection, SyncPty
from .errors import SandboxError
from .events import SandboxEvent
from .keys import CreatedKey, KeyInfo, KeyScope
from .requests import (
    ExecOptions,
    OutputCondition,
    SandboxPath,
    StartOptions,
    TerminalSize,
    WorkspaceMount,
)
from .retry import RetryPolicy
from .types import (
    Command,
    ExecInfo,
    ExecResult,
    FileChange,
    FileEntry,
    ImageInfo,
    IsolationFact,
    IsolationReport,
    OutputChunk,
    OutputMatch,
    OutputPage,
    OutputStream,
    PortInfo,
    SessionInfo,
    SessionStats,
    ShellInfo,
    WorkspaceInfo,
    WrittenFile,
)

AsyncSandboxClient = SandboxClient

__all__ = [
    "AsyncSandboxClient",
    "Command",
    "CreatedKey",
    "Exec",
    "ExecInfo",
    "ExecOptions",
    "ExecResult",
    "ExecStream",
    "FileChange",
    "FileEntry",
    "Files",
    "ImageInfo",
    "IsolationFact",
    "IsolationReport",
    "KeyInfo",
    "KeyScope",
    "Keys",
    "OutputChunk",
    "OutputCondition",
    "OutputMatch",
    "OutputPage",
    "OutputStream",
    "PortConnection",
    "PortInfo",
    "Pty",
    "RetryPolicy",
    "SandboxClient",
    "SandboxError",
    "SandboxEvent",
    "SandboxPath",
    "Session",
    "SessionInfo",
    "SessionStats",
    "ShellInfo",
    "StartOptions",
    "SyncExec",
    "SyncExecStream",
    "SyncFiles",
    "SyncKeys",
    "SyncPortConnection",
    "SyncPty",
    "SyncSandboxClient",
    "SyncSession",
    "TerminalSize",
    "WorkspaceInfo",
    "WorkspaceMount",
    "WrittenFile",
]
