"""A file system that is not this machine's to the code, as a store of objects is not."""

from __future__ import annotations

import os

from apache_beam.io.localfilesystem import LocalFileSystem


class ForeignFileSystem(LocalFileSystem):
    """A file system of Beam's with a scheme of its own, as gs:// is one; its files are below HOME."""

    HOME = ""

    @classmethod
    def scheme(cls):
        return "elsewhere"

    def _to_local(self, path):
        return os.path.join(self.HOME, path.removeprefix("elsewhere://"))

    def _to_foreign(self, path):
        return f"elsewhere://{os.path.relpath(path, self.HOME)}"

    def join(self, basepath, *paths):
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path):
        return tuple(path.rsplit("/", 1))

    def has_dirs(self):
        return True

    def mkdirs(self, path):
        super().mkdirs(self._to_local(path))

    def _list(self, dir_or_prefix):
        for metadata in super()._list(self._to_local(dir_or_prefix)):
            yield type(metadata)(
                self._to_foreign(metadata.path), metadata.size_in_bytes, metadata.last_updated_in_seconds
            )

    def create(self, path, *arguments, **options):
        return super().create(self._to_local(path), *arguments, **options)  # which makes its folder

    def _path_open(self, path, *arguments, **options):
        return super()._path_open(self._to_local(path), *arguments, **options)

    def rename(self, source_file_names, destination_file_names):
        super().rename([*map(self._to_local, source_file_names)], [*map(self._to_local, destination_file_names)])

    def delete(self, paths):
        super().delete([*map(self._to_local, paths)])

    def exists(self, path):
        return super().exists(self._to_local(path))
