"""Rules for the names of collections, and of people who annotate or collect."""

import unicodedata

from schema.errors import AtlasError

LONGEST_NAME = 60
"""Maximum characters of a name."""

SIGNS = {"collection": " .,:+()_-", "person": " .,:+()_-'’@"}
"""Kind of name → characters that are allowed besides letters, their marks and digits."""


def normalise_name(name: str, of: str = "collection") -> str:
    """Normalise a name to the form that is stored. Raises AtlasError if it is empty or too long, begins with -, or has characters that are not allowed."""
    kept, signs = unicodedata.normalize("NFC", name).strip(), SIGNS[of]
    if not 0 < len(kept) <= LONGEST_NAME or not all(c in signs or unicodedata.category(c)[0] in "LNM" for c in kept) or kept[0] == "-":
        raise AtlasError(
            f"{name[:80]!r} cannot name a {of}: a name has 1 to {LONGEST_NAME} letters, digits, spaces and {signs.strip()}, and does not begin with -"
        )
    return kept
