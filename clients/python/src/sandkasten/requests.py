"""Request bodies and queries."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypedDict
from urllib.parse import quote

from .types import Command, FileChange, FileEntry, OutputStream, WrittenFile

SandboxPath: TypeAlias = str | bytes | FileEntry | WrittenFile | FileChange
"""A path in a sandbox: text, its bytes, or an object with a path. Relative paths start at /workspace."""

Query: TypeAlias = Mapping[str, "str | int | bool | Sequence[str] | None"]


class OutputCondition(TypedDict, total=False):
    """What to wait for in a command's output."""

    pattern: str
    """A regular expression in RE2 syntax, searched for in each line."""
    stream: OutputStream


class WorkspaceMount(TypedDict, total=False):
    """A workspace, and its mount path in the session."""

    id: str
    path: str
    read_only: bool


class TerminalSize(TypedDict):
    """Size of a terminal in characters."""

    rows: int
    cols: int


class ExecOptions(TypedDict, total=False):
    """Options for running a command. All are optional."""

    idle_timeout_ms: int | None
    """Kills the command if it prints nothing for this long."""
    cwd: str | None
    """Text runs in the shell's directory by default, a list of arguments in /workspace."""
    env: Mapping[str, str] | None
    """Variables for this command only."""
    user: str | None
    stdin: str | bytes | None
    """The complete stdin. Without it, stdin is at its end."""
    shell: str | None
    """Name of the shell that runs it; created on first use."""
    stateful: bool | None
    """False runs text in a new shell."""
    merge: bool | None
    """Uses one pipe for stdout and stderr, so their order is exact."""
    output_budget_bytes: int | None
    """How much output the result contains: its beginning and its end."""
    wait_ms: int | None
    """Return after this time at the latest while the command continues; see `status`."""
    until: OutputCondition | None
    """Return as soon as the output matches; see `matched`."""
    on_disconnect: str | None
    """`continue` (the default) or `cancel`."""
    pty: TerminalSize | None
    idempotency_key: str | None
    """Two calls with the same key run one command. The client generates one for each call."""


class StartOptions(ExecOptions, total=False):
    """Options for starting a command without waiting for it."""

    stdin_open: bool | None
    """Keep stdin open for `write_stdin`."""


def exec_body(cmd: Command, options: Mapping[str, Any]) -> dict[str, Any]:
    body = present({name: options[name] for name in options if name != "idempotency_key"})
    stdin = body.pop("stdin", None)
    if isinstance(stdin, bytes):
        body["stdin_base64"] = base64.b64encode(stdin).decode()
    elif stdin is not None:
        body["stdin"] = stdin
    if "env" in body:
        body["env"] = dict(body["env"])
    return {**body, "cmd": cmd if isinstance(cmd, str) else list(cmd)}


def present(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def session_url(session_id: str) -> str:
    return f"/v1/sessions/{segment(session_id)}"


def segment(value: str) -> str:
    """A value as one segment of a URL's path."""
    return quote(value, safe="")


def query_pairs(query: Query) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, value in query.items():
        if value is None:
            continue
        if isinstance(value, bool):
            pairs.append((name, "true" if value else "false"))
        elif isinstance(value, (str, int)):
            pairs.append((name, str(value)))
        else:
            pairs += [(name, one) for one in value]
    return pairs


def path_fields(path: SandboxPath | None, suffix: str = "path") -> dict[str, str]:
    """The field that names a path: as text, or as base64 of its bytes."""
    if path is None:
        return {}
    if isinstance(path, str):
        return {suffix: path}
    if isinstance(path, bytes):
        return {f"raw_{suffix}": base64.b64encode(path).decode()}
    if path.raw_path is not None:
        return {f"raw_{suffix}": path.raw_path}
    return {suffix: path.path}


def octal(mode: int | None) -> str | None:
    return None if mode is None else f"{mode:03o}"
