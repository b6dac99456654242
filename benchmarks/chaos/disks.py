"""Small disks that can be filled and write-protected: tmpfs, mounted where only this run sees them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from devtools.processes import eventually


class Disk:
    """A disk of some megabytes at `path`; without `mounted`, an ordinary folder that can be neither filled nor
    protected."""

    def __init__(self, path: Path, megabytes: int, mounted: bool) -> None:
        self.path, self.mounted = path, mounted
        self._ballast = path / ".ballast"
        path.mkdir(parents=True)
        if mounted:
            options = f"size={megabytes}m,nr_inodes=0,mode=755"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "chaos", path], check=True)

    def fill(self) -> None:
        """Allocates the disk to its last page."""
        file = os.open(self._ballast, os.O_CREAT | os.O_WRONLY)
        try:
            size, step = 0, self._free() or 1
            while step >= 4096:
                try:
                    os.posix_fallocate(file, size, step)
                    size += step
                except OSError:  # others write, too: less is free than a moment ago
                    step //= 2
        finally:
            os.close(file)

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def write_protect(self, protected: bool) -> None:
        """The kernel refuses while a file is open for writing; that is a matter of moments."""
        option = "ro" if protected else "rw"

        def remount() -> bool:
            return subprocess.run(["mount", "-o", f"remount,{option}", self.path], capture_output=True).returncode == 0

        eventually(f"{self.path} to be {option}", remount, 30)

    def _free(self) -> int:
        stats = os.statvfs(self.path)
        return stats.f_bavail * stats.f_frsize
