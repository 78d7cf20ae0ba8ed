"""Generates the synchronous client from the asynchronous one.

Without arguments it writes; with `--check` it fails if what is there is out of date.
"""

from __future__ import annotations

import filecmp
import sys
import tempfile
from pathlib import Path

import unasync  # type: ignore[import-untyped]

HERE = Path(__file__).parent
PACKAGES = [
    (HERE / parent / "_async", HERE / parent / "_sync") for parent in ("src/sandkasten", "tests")
]
BY_HAND = {"primitives.py"}
"""Files that both clients have in a version of their own."""

CLASSES = [
    *("Exec", "ExecStream", "Files", "Keys", "PortConnection", "Pty"),
    *("SandboxClient", "SandboxTools", "Session"),
]
NAMES = {
    **{name: f"Sync{name}" for name in CLASSES},
    "AsyncClient": "Client",
    "aclose": "close",
    "aiter": "iter",
    "anext": "next",
    "aiter_bytes": "iter_bytes",
    "aread": "read",
    "asynccontextmanager": "contextmanager",
    "IsolatedAsyncioTestCase": "TestCase",
    "asyncSetUp": "setUp",
    "asyncTearDown": "tearDown",
    "_async": "_sync",
}


def generate(source: Path, target: Path) -> None:
    names = [path for path in source.glob("*.py") if path.name not in BY_HAND]
    rule = unasync.Rule(f"{source}/", f"{target}/", additional_replacements=NAMES)
    unasync.unasync_files([str(path) for path in names], [rule])
    for path in target.glob("*.py"):
        if path.name in BY_HAND:
            continue
        text = path.read_text()
        note = "# Generated from the asynchronous version by generate_sync.py. Do not edit.\n"
        path.write_text(note + text)


def is_current(source: Path, target: Path) -> bool:
    with tempfile.TemporaryDirectory() as directory:
        fresh = Path(directory)
        generate(source, fresh)
        names = sorted(path.name for path in fresh.glob("*.py"))
        present = sorted(path.name for path in target.glob("*.py") if path.name not in BY_HAND)
        _, differing, missing = filecmp.cmpfiles(fresh, target, names, shallow=False)
        return names == present and not differing and not missing


def main() -> int:
    if "--check" not in sys.argv[1:]:
        for source, target in PACKAGES:
            target.mkdir(exist_ok=True)
            generate(source, target)
        return 0
    stale = [str(target) for source, target in PACKAGES if not is_current(source, target)]
    for name in stale:
        print(f"{name} is out of date: run {Path(__file__).name}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
