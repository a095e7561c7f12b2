"""Elements of HTML and SVG, in which every text is escaped."""

from __future__ import annotations

from markupsafe import Markup, escape

Attribute = str | float | None


def element(tag: str, *children: str, **attributes: Attribute) -> Markup:
    """Return an element.

    Parameters
    ----------
    tag
        Its name.
    children
        What it holds: text, which is escaped, and other elements.
    attributes
        ``stroke_width`` is written ``stroke-width``, and ``class_`` ``class``; one that is None is
        left out. Numbers have two decimals, which is all a screen can show.
    """
    written = Markup("").join(
        Markup(' {}="{}"').format(name.rstrip("_").replace("_", "-"), _value(value))
        for name, value in attributes.items()
        if value is not None
    )
    inner = Markup("").join(escape(child) for child in children)
    # a tag is never input
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(tag), written, inner)  # noqa: S704


def group(*children: str, **attributes: Attribute) -> Markup:
    """Return a ``<g>``."""
    return element("g", *children, **attributes)


def text(words: str, x: float, y: float, *, class_: str = "", anchor: str | None = None) -> Markup:
    """Return a ``<text>``."""
    return element("text", words, x=x, y=y, class_=class_ or None, text_anchor=anchor)


def picture(width: float, height: float, title: str, *children: str, class_: str = "") -> Markup:
    """Return an ``<svg>`` that shrinks where there is less room, and says what it shows."""
    return element(
        "svg",
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        class_=f"figure {class_}".strip(),
        role="img",
        aria_label=title,
        style=f"max-width:{1.2 * width:g}px",
    )


def _value(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
