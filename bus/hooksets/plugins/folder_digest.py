"""The digest of a plugin's whole folder: its MCP servers may load any file of it (I-10, X-10)."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from bus.errors import ConfigError
from bus.hooksets.named_files import CACHES
from bus.hooksets.pins import script_digest

MOST_FILES: Final = 4000
MOST_BYTES: Final = 256 * 1024 * 1024


def folder_digest(root: Path | str) -> str:
    """The SHA-256 (hex) over names and contents of a folder's files, without caches, `.git` and installed packages.

    Raises ConfigError if it has too many files, too many bytes, or a file that cannot be read.
    """
    place, whole, size, count = os.path.realpath(root), hashlib.sha256(), 0, 0
    for folder, below, files in os.walk(place):
        below[:] = sorted(name for name in below if name not in CACHES)
        for name in sorted(files):
            file = os.path.join(folder, name)
            count += 1
            try:
                size += os.stat(file).st_size
            except OSError:
                continue  # a link to nothing
            if count > MOST_FILES or size > MOST_BYTES:
                text = (
                    f"the folder has more than {MOST_FILES} files or {MOST_BYTES // 2**20} MiB, too many to be pinned"
                )
                raise ConfigError(text, file=place, hint="take out what is not part of the plugin")
            digest = script_digest(file)
            if digest == "unreadable":
                raise ConfigError(
                    "it cannot be read", file=file, hint="the MCP servers of a plugin need a readable folder"
                )
            relative = os.path.relpath(file, place)
            whole.update(hashlib.sha256(os.fsencode(relative)).digest() + digest.encode())
    return whole.hexdigest()
