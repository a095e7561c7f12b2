"""Names that users choose, kept to a length."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

#: Longer names are cut.
MOST_CHARACTERS: Final = 200


def bounded(name: str, most: int = MOST_CHARACTERS) -> str:
    """Return a name of at most so many characters: a long one is cut and ends in a hash of it all.

    So names that share their beginning stay distinct.
    """
    if len(name) <= most:
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{name[: most - len(digest) - 1]}~{digest}"
