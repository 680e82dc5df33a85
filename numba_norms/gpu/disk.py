"""Files that keep compiled kernels from one process to the next.

Rules of this file:

* An entry is written beside its place and moved there in one step, so that other processes see all of it or nothing.
  Two that compile the same kernel write the same entry; the last one stays.
* Nothing read is trusted: an entry that is cut short, damaged, or of another key is no entry.
* Without a folder to write to, everything works as before, only slower; that is said once.

``NUMBA_NORMS_CACHE_DIR`` names the folder; set to nothing, it turns the files off.  Otherwise it is ``numba_norms`` in
the user's cache folder.  Past 256 MiB (some ten thousand kernels), the entries that lay unused longest go.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

MAX_BYTES = 256 << 20
"""How much an entry may find in the folder before the oldest make room, down to three quarters of it."""

_MAGIC = b"numba-norms kernel 1\n"
_DIGEST = hashlib.sha256().digest_size
_LENGTH = 8
_refused: set[Path] = set()


class NoKernelCache(UserWarning):
    """Compiled kernels cannot be kept on disk: each process compiles them anew."""


def folder() -> Path | None:
    """Where the entries are; None for nowhere."""
    chosen = os.environ.get("NUMBA_NORMS_CACHE_DIR")
    if chosen is not None:
        return Path(chosen) if chosen else None
    try:
        if sys.platform == "win32":
            base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        else:
            base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # a user without a home, as in many containers
        return None
    return Path(base) / "numba_norms"


def read(key: str) -> tuple[dict[str, Any], bytes] | None:
    """The facts and the code kept under this key, or None."""
    place = folder()
    if place is None:
        return None
    path = _path(place, key)
    try:
        entry = path.read_bytes()
    except OSError:
        return None
    body = entry[len(_MAGIC) + _DIGEST :]
    if entry[: len(_MAGIC) + _DIGEST] != _MAGIC + hashlib.sha256(body).digest():
        return None
    end = _LENGTH + int.from_bytes(body[:_LENGTH], "little")
    facts = json.loads(body[_LENGTH:end])
    if facts.pop("key") != key:
        return None
    with contextlib.suppress(OSError):  # a folder that may only be read serves as well
        os.utime(path)
    return facts, body[end:]


def write(key: str, facts: dict[str, Any], code: bytes) -> None:
    """Keep facts and code under this key, if the folder lets us."""
    place = folder()
    if place is None or place in _refused:
        return
    text = json.dumps({"key": key, **facts}).encode()
    body = len(text).to_bytes(_LENGTH, "little") + text + code
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(_path(place, key), _MAGIC + hashlib.sha256(body).digest() + body)
        _tidy(place)
    except OSError as error:
        _refused.add(place)
        warnings.warn(
            f"compiled kernels cannot be kept in {place} ({error.strerror}), so that every process compiles them anew;"
            " NUMBA_NORMS_CACHE_DIR names another folder, or none if set to nothing (said once)",
            NoKernelCache,
            stacklevel=2,
        )


def _path(place: Path, key: str) -> Path:
    return place / f"{key}.kernel"


def _replace(path: Path, entry: bytes) -> None:
    """Write a file that is there as a whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(entry)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _tidy(place: Path) -> None:
    """Make room where there is too much, longest unused first.  What another process removes meanwhile is gone too."""
    found = []
    for path in (*place.glob("*.kernel"), *place.glob("*.part")):
        with contextlib.suppress(FileNotFoundError):
            state = path.stat()
            found.append((state.st_mtime, state.st_size, path))
    size = sum(size for _, size, _ in found)
    if size <= MAX_BYTES:
        return
    for _, bytes_, path in sorted(found):
        if size <= MAX_BYTES * 3 // 4:
            break
        path.unlink(missing_ok=True)
        size -= bytes_
