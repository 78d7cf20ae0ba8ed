"""Files on a real daemon."""

import io
import tarfile
from collections.abc import AsyncIterator

from sandkasten import SandboxError

from .daemon_case import DaemonCase


async def pieces() -> AsyncIterator[bytes]:
    yield b"one "
    yield b"two"


class Files(DaemonCase):
    async def test_files_keep_every_byte(self) -> None:
        everything = bytes(range(256)) * 5000
        contents: list[tuple[str, str | bytes]] = [
            ("a b&c=ü#.bin", everything),
            ("deep/text", "grün\n"),
            ("empty", ""),
        ]
        for path, content in contents:
            await self.session.write(path, content)
            expected = content.encode() if isinstance(content, str) else content
            self.assertEqual(await self.session.read(path), expected)
        self.assertEqual(await self.session.read("a b&c=ü#.bin", max_bytes=3), b"\0\1\2")
        self.assertEqual(await self.session.read("empty", max_bytes=3), b"")
        with self.assertRaises(ValueError):
            await self.session.read("empty", max_bytes=-1)
        downloaded = [data async for data in self.session.files.download("a b&c=ü#.bin", 1)]
        self.assertEqual(b"".join(downloaded), everything[1:])

    async def test_a_write_can_stream_and_refuse_to_replace(self) -> None:
        files = self.session.files
        written = await files.write("streamed", pieces(), mode=0o640)
        self.assertEqual((written.path, written.size_bytes), ("/workspace/streamed", 7))
        self.assertEqual(await files.read_text("streamed"), "one two")
        self.assertEqual((await files.stat("streamed")).mode, 0o640)
        with self.assertRaises(SandboxError) as caught:
            await files.write("streamed", "x", overwrite=False)
        self.assertEqual(caught.exception.code, "FILE_EXISTS")
        await files.append("streamed", " three")
        with self.assertRaises(SandboxError) as caught:
            await files.write("streamed", "x", if_match=written.etag)
        self.assertEqual(caught.exception.code, "FILE_CHANGED")
        self.assertEqual(await files.read_text("streamed"), "one two three")

    async def test_directories_are_created_listed_moved_copied_and_removed(self) -> None:
        files = self.session.files
        await files.mkdir("tree/inner", mode=0o700)
        await files.write("tree/inner/file", "content")
        await files.move("tree/inner", "tree/moved")
        await files.copy("tree/moved", "tree/copied", recursive=True)
        names = [entry.path async for entry in files.list("tree", recursive=True)]
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
            await files.remove("tree")
        self.assertEqual(caught.exception.code, "FILE_EXISTS")
        self.assertTrue(await files.exists("tree/moved/file"))
        await files.remove("tree", recursive=True)
        self.assertFalse(await files.exists("tree/moved/file"))
        await self.session.exec(["ln", "-s", "/usr", "link"])
        self.assertEqual(await files.realpath("link"), "/usr")
        self.assertEqual((await files.stat("link")).target, "/usr")
        self.assertEqual((await files.stat("link", follow=True)).type, "dir")

    async def test_names_that_are_not_utf8_are_addressed_by_their_bytes(self) -> None:
        files = self.session.files
        await files.mkdir("odd")
        await files.write(b"/workspace/odd/\xff", "odd")
        [entry] = [entry async for entry in files.list("odd")]
        self.assertEqual(await files.read(entry), b"odd")
        await files.remove(entry)
        self.assertEqual([entry async for entry in files.list("odd")], [])

    async def test_archives_are_unpacked_and_packed(self) -> None:
        files = self.session.files
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name in ("kept", "left.log"):
                info = tarfile.TarInfo(name)
                info.size = 3
                archive.addfile(info, io.BytesIO(b"abc"))
        await files.untar(packed.getvalue(), "packed")
        data = b"".join([data async for data in files.tar("packed", exclude=["*.log"])])
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            names = [name.removeprefix("./") for name in archive.getnames()]
        self.assertIn("kept", names)
        self.assertNotIn("left.log", names)

    async def test_changes_are_reported(self) -> None:
        await self.session.files.mkdir("watched")
        await self.session.start(
            ["sh", "-c", "while [ ! -e stop ]; do date > watched/tick; sleep 0.1; done"]
        )
        async for change in self.session.files.watch("watched"):
            self.assertTrue(change.path.startswith("/workspace/watched/"))
            break
        await self.session.write("stop", "")

    async def test_failures_have_the_code_of_the_daemon(self) -> None:
        with self.assertRaises(SandboxError) as caught:
            await self.session.read("nowhere")
        error = caught.exception
        self.assertEqual((error.code, error.status), ("FILE_NOT_FOUND", 404))
        self.assertTrue(error.request_id)
        self.assertIn("FILE_NOT_FOUND: ", str(error))
        with self.assertRaises(SandboxError) as caught:
            await self.session.write("huge", bytes(70_000_000))
        self.assertEqual((caught.exception.code, caught.exception.status), ("STORAGE_FULL", 507))
