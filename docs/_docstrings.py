"""Bring docstrings into Markdown: examples become blocks of code, ``.. versionadded::`` a line.

In the source they stand as doctest and Sphinx know them, which editors know too.
"""  # noqa: INP001 - loaded by path, while the pages are built

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_PARAGRAPH = re.compile(r"(?:^.*\S.*\n?)+", re.MULTILINE)
_ROLE = re.compile(r":\w+:(?=`)")
_VERSION = re.compile(r"^\.\. versionadded:: (\S+)$", re.MULTILINE)


class Docstrings(Extension):
    """Rewrite each docstring before it is parsed."""

    def on_object(self, *, obj: Object, **_kwargs: Any) -> None:
        """Rewrite the docstring of one module, class, function or attribute."""
        if obj.docstring is not None:
            text = _VERSION.sub(r"*New in \1.*", _ROLE.sub("", obj.docstring.value))
            obj.docstring.value = _PARAGRAPH.sub(_fenced, text)


def _fenced(paragraph: re.Match[str]) -> str:
    text = paragraph[0].rstrip("\n")
    return f"```pycon\n{text}\n```\n" if text.startswith(">>> ") else paragraph[0]
