"""The files of the site beyond its pages: those outside docs/ that pages link to are copied into it."""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]

_LINK = re.compile(r"\]\(((?:\.\./)+[^()\s#]+)\)")


def on_page_markdown(markdown: str, /, *, page: Any, config: Any, files: Any) -> str:
    """Links to files of the repository lead to `files/` of the site."""
    folder = PurePosixPath(page.file.src_uri).parent

    def into_site(match: re.Match[str]) -> str:
        path = normpath(str("docs" / folder / match[1]))
        if path.startswith("docs/") or not (ROOT / path).is_file():
            return match[0]
        suffix = ".txt" if path.endswith(".md") else ""  # mkdocs renders no page that a hook adds
        name = f"files/{path}{suffix}"
        if files.get_file_from_path(name) is None:
            files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
        return f"]({relpath(name, str(folder))})"

    return _LINK.sub(into_site, markdown)
