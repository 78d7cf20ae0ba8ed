# Generated from the asynchronous version by generate_sync.py. Do not edit.
"""Files on a real daemon."""

import io
import tarfile
from collections.abc import Iterator

from sandkasten import SandboxError

from .daemon_case import DaemonCase


def pieces() -> Iterator[bytes]:
    yield b"one "
    yield b"two"


class SyncFiles(DaemonCase):
    def test_files_keep_every_byte(self) -> None:
        everything = bytes(range(256)) * 5000
        contents: list[tuple[str, str | bytes]] = [
            ("a b&c=ü#.bin", everything),
            ("deep/text", "grün\n"),
            ("empty", ""),
        ]
        for path, content in contents:
            self.session.write(path, content)
            expected = content.encode() if isinstance(content, str) else content
            self.assertEqual(self.session.read(path), expected)
        self.assertEqual(self.session.read("a b&c=ü#.bin", max_bytes=3), b"\0\1\2")
        self.assertEqual(self.session.read("empty", max_bytes=3), b"")
        with self.assertRaises(ValueError):
            self.session.read("empty", max_bytes=-1)
        downloaded = [data for data in self.session.files.download("a b&c=ü#.bin", 1)]
        self.assertEqual(b"".join(downloaded), everything[1:])

    def test_a_write_can_stream_and_refuse_to_replace(self) -> None:
        files = self.session.files
        written = files.write("streamed", pieces(), mode=0o640)
        self.assertEqual((written.path, written.size_bytes), ("/workspace/streamed", 7))
        self.assertEqual(files.read_text("streamed"), "one two")
        self.assertEqual((files.stat("streamed")).mode, 0o640)
        with self.assertRaises(SandboxError) as caught:
            files.write("streamed", "x", overwrite=False)
        self.assertEqual(caught.exception.code, "FILE_EXISTS")
        files.append("streamed", " three")
        with self.assertRaises(SandboxError) as caught:
            files.write("streamed", "x", if_match=written.etag)
        self.assertEqual(caught.exception.code, "FILE_CHANGED")
        self.assertEqual(files.read_text("streamed"), "one two three")

    def test_directories_are_created_listed_moved_copied_and_removed(self) -> None:
        files = self.session.files
        files.mkdir("tree/inner", mode=0o700)
        files.write("tree/inner/file", "content")
        files.move("tree/inner", "tree/moved")
        files.copy("tree/moved", "tree/copied", recursive=True)
        names = [entry.path for entry in files.list("tree", recursive=True)]
        self.assertEqual(
            names,
            [
                "/workspace/tree/copied",
                "/workspace/tree/copied/file",
                "/workspace/tree/moved",
                "/workspace/tree/moved/file",
            ],
        )
        with self.assertRaises(SandboxError) as caught:
            files.remove("tree")
        self.assertEqual(caught.exception.code, "FILE_EXISTS")
        self.assertTrue(files.exists("tree/moved/file"))
        files.remove("tree", recursive=True)
        self.assertFalse(files.exists("tree/moved/file"))
        self.session.exec(["ln", "-s", "/usr", "link"])
        self.assertEqual(files.realpath("link"), "/usr")
        self.assertEqual((files.stat("link")).target, "/usr")
        self.assertEqual((files.stat("link", follow=True)).type, "dir")

    def test_names_that_are_not_utf8_are_addressed_by_their_bytes(self) -> None:
        files = self.session.files
        files.mkdir("odd")
        files.write(b"/workspace/odd/\xff", "odd")
        [entry] = [entry for entry in files.list("odd")]
        self.assertEqual(files.read(entry), b"odd")
        files.remove(entry)
        self.assertEqual([entry for entry in files.list("odd")], [])

    def test_archives_are_unpacked_and_packed(self) -> None:
        files = self.session.files
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name in ("kept", "left.log"):
                info = tarfile.TarInfo(name)
                info.size = 3
                archive.addfile(info, io.BytesIO(b"abc"))
        files.untar(packed.getvalue(), "packed")
        data = b"".join([data for data in files.tar("packed", exclude=["*.log"])])
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            names = [name.removeprefix("./") for name in archive.getnames()]
        self.assertIn("kept", names)
        self.assertNotIn("left.log", names)

    def test_changes_are_reported(self) -> None:
        self.session.files.mkdir("watched")
        self.session.start(
            ["sh", "-c", "while [ ! -e stop ]; do date > watched/tick; sleep 0.1; done"]
        )
        for change in self.session.files.watch("watched"):
            self.assertTrue(change.path.startswith("/workspace/watched/"))
            break
        self.session.write("stop", "")

    def test_failures_have_the_code_of_the_daemon(self) -> None:
        with self.assertRaises(SandboxError) as caught:
            self.session.read("nowhere")
        error = caught.exception
        self.assertEqual((error.code, error.status), ("FILE_NOT_FOUND", 404))
        self.assertTrue(error.request_id)
        self.assertIn("FILE_NOT_FOUND: ", str(error))
        with self.assertRaises(SandboxError) as caught:
            self.session.write("huge", bytes(70_000_000))
        self.assertEqual((caught.exception.code, caught.exception.status), ("STORAGE_FULL", 507))
