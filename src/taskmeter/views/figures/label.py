"""Names that users gave, as labels of a picture."""

from __future__ import annotations

from taskmeter.text import short_name

#: What makes Bokeh take a text for mathematics never comes in pairs: a space of no width follows.
_NO_MATHS = str.maketrans({"$": "$\u200b", "\\": "\\\u200b"})

#: A longer label would take the place of the picture.
LONGEST_LABEL = 28


def label(name: str, longest: int = LONGEST_LABEL) -> str:
    """Return a name as one short line of text, which no part of Bokeh takes for markup.

    It is not HTML: where it becomes part of a page's source, it has to be escaped there.
    """
    return short_name(name, longest).translate(_NO_MATHS)
