"""How Sphinx builds the documentation: ``make docs``."""

from __future__ import annotations

from pathlib import Path

from taskmeter.version import __version__

project = "taskmeter"
author = "the taskmeter developers"
copyright = "2026, the taskmeter developers"  # noqa: A001 (Sphinx's name)
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build"]
suppress_warnings = ["config.cache"]

html_theme = "dask_sphinx_theme"
html_title = "taskmeter"
html_theme_options = {"logo": {"text": "taskmeter"}}

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc has them
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

HERE = Path(__file__).parent


def assemble_changelog() -> None:
    """Write the changelog: one fragment for each topic, the latest first."""
    fragments = sorted((HERE.parent / "changelog.d").glob("*.md"), reverse=True)
    text = "\n".join(fragment.read_text(encoding="utf-8").rstrip() for fragment in fragments)
    text = text.replace("](docs/", "](")
    (HERE / "changelog.md").write_text(
        f"# Changelog\n\n## {version}, not released yet\n\n{text}\n", encoding="utf-8"
    )


assemble_changelog()
