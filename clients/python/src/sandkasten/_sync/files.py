# Generated from the asynchronous version by generate_sync.py. Do not edit.
"""Files in a sandbox or a workspace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx2

from ..errors import SandboxError, connection_failed, error_from_event
from ..events import json_object
from ..requests import Query, SandboxPath, octal, path_fields, present
from ..types import FileChange, FileEntry, WrittenFile, from_body
from .primitives import sleep
from .transport import Call, Transport


class SyncFiles:
    """Relative paths start at /workspace."""

    def __init__(self, transport: Transport, base: str) -> None:
        self._transport = transport
        self._base = f"{base}/fs"

    def read(self, path: SandboxPath, max_bytes: int | None = None) -> bytes:
        """The bytes of a file: all of them, or the first `max_bytes`."""
        if max_bytes is None:
            return self._bytes(path, {})
        if max_bytes < 0:
            raise ValueError(f"max_bytes must not be negative, but is {max_bytes}")
        try:
            # A range cannot be empty.
            last = max(1, max_bytes) - 1
            return (self._bytes(path, {"Range": f"bytes=0-{last}"}))[:max_bytes]
        except SandboxError as error:
            if error.status == 416:  # An empty file has no range.
                return b""
            raise

    def read_text(self, path: SandboxPath) -> str:
        """The text of a file. Bytes that are not UTF-8 are replaced."""
        return (self.read(path)).decode(errors="replace")

    def download(self, path: SandboxPath, offset: int = 0) -> Iterator[bytes]:
        """The bytes of a file as they arrive. A broken connection raises an error."""
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        call = Call("GET", f"{self._base}/file", path_fields(path), headers=headers, waits=True)
        with self._transport.open(call) as response:
            for data in response.iter_bytes():
                yield data

    def write(
        self,
        path: SandboxPath,
        content: str | bytes | Iterator[bytes],
        *,
        mode: int | None = None,
        overwrite: bool = True,
        if_match: str | None = None,
    ) -> WrittenFile:
        """Writes a file: readers see the old content or the new, never a part.

        `overwrite=False` refuses to replace a file, and `if_match` one that no longer has this etag.
        """
        query: Query = {
            **path_fields(path),
            "mode": octal(mode),
            "overwrite": None if overwrite else False,
            "if_match": if_match,
        }
        # If the response is lost, a retry could find the file of the first attempt.
        repeatable = None if overwrite and if_match is None else False
        return self._put(query, content, repeatable)

    def append(
        self, path: SandboxPath, content: str | bytes | Iterator[bytes]
    ) -> WrittenFile:
        """Appends to a file atomically; creates it if it does not exist."""
        return self._put({**path_fields(path), "append": True}, content, False)

    def stat(self, path: SandboxPath, follow: bool = False) -> FileEntry:
        """Describes a path. A link is described itself, unless `follow` is set."""
        query: Query = {**path_fields(path), "follow": follow}
        return from_body(FileEntry, self._get("stat", query))

    def exists(self, path: SandboxPath) -> bool:
        """Whether the path exists."""
        try:
            self.stat(path)
        except SandboxError as error:
            if error.code in ("FILE_NOT_FOUND", "NOT_A_DIRECTORY"):
                return False
            raise
        return True

    def realpath(self, path: SandboxPath) -> str:
        """The absolute path without links, `.` and `..`."""
        return str((self._get("realpath", path_fields(path)))["path"])

    def list(
        self, path: SandboxPath | None = None, recursive: bool = False
    ) -> Iterator[FileEntry]:
        """The entries of a directory, loading pages as needed."""
        query: dict[str, Any] = {**path_fields(path), "recursive": recursive}
        while True:
            page = self._transport.json(Call("GET", self._base, query))
            for entry in page["entries"]:
                yield from_body(FileEntry, entry)
            if page.get("next_cursor") is None:
                return
            query["cursor"] = page["next_cursor"]

    def mkdir(self, path: SandboxPath, mode: int | None = None, parents: bool = True) -> None:
        """Creates a directory."""
        self._post("mkdir", {**path_fields(path), "mode": mode, "parents": parents})

    def move(self, source: SandboxPath, target: SandboxPath, overwrite: bool = False) -> None:
        """Moves a file or directory."""
        body = {**path_fields(source, "from"), **path_fields(target, "to"), "overwrite": overwrite}
        self._post("move", body)

    def copy(
        self,
        source: SandboxPath,
        target: SandboxPath,
        overwrite: bool = False,
        recursive: bool = False,
    ) -> None:
        """Copies a file or, with `recursive`, a directory. Links are copied as links."""
        paths = {**path_fields(source, "from"), **path_fields(target, "to")}
        self._post("copy", {**paths, "overwrite": overwrite, "recursive": recursive})

    def remove(self, path: SandboxPath, recursive: bool = False) -> None:
        """Removes a file or an empty directory; with `recursive`, any directory."""
        query: Query = {**path_fields(path), "recursive": recursive}
        call = Call("DELETE", self._base, query, done_when_repeated="FILE_NOT_FOUND")
        self._transport.json(call)

    def tar(
        self,
        path: SandboxPath | None = None,
        exclude: Sequence[str] = (),
        on_unreadable: str | None = None,
    ) -> Iterator[bytes]:
        """A directory as a tar archive. An archive that ends without an error is complete."""
        query: Query = {
            **path_fields(path),
            "exclude": list(exclude),
            "on_unreadable": on_unreadable,
        }
        with self._transport.open(
            Call("GET", f"{self._base}/tar", query, waits=True)
        ) as response:
            for data in response.iter_bytes():
                yield data

    def untar(
        self, archive: bytes | Iterator[bytes], path: SandboxPath | None = None
    ) -> None:
        """Unpacks a tar archive into a directory."""
        call = Call("PUT", f"{self._base}/tar", path_fields(path), content=archive)
        self._transport.json(call)

    def watch(
        self, path: SandboxPath | None = None, recursive: bool = False
    ) -> Iterator[FileChange]:
        """Changes as they happen. `overflow` reports a broken connection: changes may be missing."""
        query: Query = {**path_fields(path), "recursive": recursive}
        call = Call("GET", f"{self._base}/watch", query, waits=True)
        failures = 0
        while True:
            try:
                with self._transport.open(call) as response:
                    for event in httpx2.EventSource(response, max_event_size=None):
                        failures = 0
                        data = json_object(event)
                        if event.event == "change":
                            yield from_body(FileChange, data)
                        elif event.event == "error":
                            raise error_from_event(data)
                raise connection_failed("Watching files", "the connection ended")
            except SandboxError as error:
                if not self._transport.retry.allows(failures, error):
                    raise
                sleep(self._transport.retry.delay(failures, error))
                failures += 1
                yield FileChange("overflow", "/workspace", None)

    def _bytes(self, path: SandboxPath, headers: Mapping[str, str]) -> bytes:
        call = Call("GET", f"{self._base}/file", path_fields(path), headers=headers, waits=True)
        return self._transport.content(call)

    def _put(
        self,
        query: Query,
        content: str | bytes | Iterator[bytes],
        repeatable: bool | None,
    ) -> WrittenFile:
        data = content.encode() if isinstance(content, str) else content
        call = Call("PUT", f"{self._base}/file", query, content=data, repeatable=repeatable)
        return from_body(WrittenFile, self._transport.json(call))

    def _get(self, name: str, query: Query) -> Any:
        return self._transport.json(Call("GET", f"{self._base}/{name}", query))

    def _post(self, name: str, fields: Mapping[str, Any]) -> None:
        call = Call("POST", f"{self._base}/{name}", json=present(fields), waits=True)
        self._transport.json(call)
