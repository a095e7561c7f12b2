"""Golden files: text output is compared whole.

``pytest tests/exporters --rewrite-golden`` writes them anew; look at the difference before you
commit it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="write the golden files anew instead of comparing with them",
    )


@pytest.fixture
def same_as_golden(request: pytest.FixtureRequest) -> Callable[[str, bytes], None]:
    """Compare bytes with a golden file, exactly."""
    rewrite = request.config.getoption("--rewrite-golden", default=False)

    def compare(name: str, found: bytes) -> None:
        path = GOLDEN / name
        if rewrite:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(found)
        assert found.decode() == path.read_text(encoding="utf-8"), (
            f"{path} differs; if the new output is right: pytest {Path(__file__).parent} "
            "--rewrite-golden"
        )

    return compare
