"""What `make web` has built: every file with its media type, its compressed forms and its ETag.

All of it is read when it is first asked for and then kept. A file is found by its name in a dict,
never by a path: what is not in there cannot be reached, whatever is asked for.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

DIST = Path(__file__).parent / "dist"
INDEX = "index.html"
ASSETS = "assets"

MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/vnd.microsoft.icon",
    ".jpg": "image/jpeg",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
"""A table of our own: what the machine's own says differs from one to the next."""
UNKNOWN = "application/octet-stream"

ENCODINGS = {"br": ".br", "gzip": ".gz"}
"""What a file may lie beside it compressed as, the smallest first."""
HASHED = re.compile(r".+-[A-Za-z0-9_-]{8}\.[a-z0-9]+")
"""NAME-HASH.EXT: what is in such a file never changes, for then it has another name."""


class File(NamedTuple):
    media: str
    forms: Mapping[str, bytes]
    """As it is ("identity") and by each encoding it lies there in, the smallest first."""
    digest: str
    lasting: bool
    """Whether it will be the same for ever under this name."""

    def etag(self, encoding: str) -> str:
        """Another one for each form: they are not the same bytes."""
        return f'"{self.digest}"' if encoding == "identity" else f'"{self.digest}-{encoding}"'


class Site:
    """The files of one build. One that is not there yet is looked for again at every ask, so that a
    service which was started before `make web` need not be started again after it."""

    def __init__(self, folder: Path = DIST) -> None:
        self.folder = folder
        self._files: dict[str, File] = {}

    @property
    def loaded(self) -> bool:
        """Whether `files` costs nothing any more."""
        return bool(self._files)

    @property
    def built(self) -> bool:
        return self.loaded or (self.folder / INDEX).is_file()

    @property
    def files(self) -> Mapping[str, File]:
        """By name: `index.html`, `assets/app-1a2b3c4d.js`. Empty if there is no build."""
        if not self.loaded and self.built:
            self._files = _read(self.folder)
        return self._files


def _read(folder: Path) -> dict[str, File]:
    assets = folder / ASSETS
    paths = [folder / INDEX, *(sorted(assets.iterdir()) if assets.is_dir() else ())]
    compressed = tuple(ENCODINGS.values())
    return {
        path.relative_to(folder).as_posix(): _file(path)
        for path in paths
        if path.is_file() and path.suffix not in compressed
    }


def _file(path: Path) -> File:
    body = path.read_bytes()
    forms = {}
    for encoding, suffix in ENCODINGS.items():
        beside = path.with_name(path.name + suffix)
        if beside.is_file():
            forms[encoding] = beside.read_bytes()
    return File(
        media=MEDIA.get(path.suffix, UNKNOWN),
        forms={**forms, "identity": body},
        digest=hashlib.blake2b(body, digest_size=12).hexdigest(),
        lasting=HASHED.fullmatch(path.name) is not None,
    )
