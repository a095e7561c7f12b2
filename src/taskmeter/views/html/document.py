"""A page of HTML that loads nothing and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from taskmeter.views.figures.palette import GROUPS


def rendered(template: str, **values: Any) -> str:
    """Return a page.

    Parameters
    ----------
    template
        One of the package's templates.
    values
        What it shows, beside the style and the script that all pages share.
    """
    environment = Environment(
        loader=PackageLoader("taskmeter.views.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    script = _source(environment, "page.js")
    return environment.get_template(template).render(
        colours=GROUPS,
        style=Markup(_source(environment, "page.css")),  # noqa: S704 (a file of this package)
        script=Markup(script),  # noqa: S704 (likewise)
        digest=_digest(script),
        **values,
    )


def _source(environment: Environment, name: str) -> str:
    loader: Any = environment.loader
    source: str = loader.get_source(environment, name)[0]
    return source


def _digest(script: str) -> str:
    """Return what a content security policy calls a script by."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
