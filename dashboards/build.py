"""Builds the Grafana dashboards that are in the package: ``python dashboards/build.py``.

With ``--check`` it writes nothing, and ends with 1 if the files are not what it would write. It
needs grafana-foundation-sdk (``pip install 'taskmeter[grafana]'``), which needs Python 3.11.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from overview import overview
from prefix import prefix
from waste import waste
from workers import workers

FOLDER = Path(__file__).parents[1] / "src" / "taskmeter" / "grafana" / "dashboards"


def built() -> dict[Path, str]:
    """Give ``{path: text}`` of every dashboard."""
    found = {}
    for board in (overview(), prefix(), workers(), waste()):
        model = board.build()
        for number, panel in enumerate(model.panels or (), start=1):
            panel.id_val = number
        text = json.dumps(model, cls=JSONEncoder, indent=2, sort_keys=True, ensure_ascii=False)
        found[FOLDER / f"{model.uid}.json"] = text + "\n"
    return found


def main() -> int:
    """Write the dashboards, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    files = built()
    if parser.parse_args().check:
        there = {path: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
        wrong = sorted(path.name for path in {*files, *there} if files.get(path) != there.get(path))
        for name in wrong:
            print(f"{name} is not what dashboards/build.py makes: make grafana")
        return bool(wrong)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
