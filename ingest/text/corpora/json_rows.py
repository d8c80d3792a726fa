"""The objects in a JSON file, read one at a time: an object on each line, or the items of one list."""

import json
import re
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

from ingest.text.corpora.decoded import LONGEST_ROW, decoded_blocks, decoded_lines, too_long_error
from ingest.text.corpora.document import check_names
from schema.errors import AtlasError

SPACE = re.compile(r"[ \t\r\n]*")
LONGEST_MARK = 16
"""Most characters of a literal, number or escape, of which a part is not JSON: an error this near the end of the text may mean that more must be read."""


def json_lines(path: Path) -> Iterator[tuple[str, dict]]:
    """Yield each line's place and object; blank lines are skipped."""
    for number, line in enumerate(decoded_lines(path), start=1):
        if not line.isspace():
            where = f"{path}, line {number}"
            yield where, line_object(where, line)


def line_object(where: str, line: str) -> dict:
    """Parse the object in a line. Raises AtlasError if the line is not a JSON object."""
    try:
        row = json.loads(line, object_pairs_hook=lambda pairs: _unique_name_dict(where, pairs))
    except (ValueError, RecursionError) as error:
        raise _no_json(where, error) from error
    if not isinstance(row, dict):
        raise AtlasError(f"{where}: a JSON {type(row).__name__}, where each line should be an object")
    return row


def json_list(path: Path) -> Iterator[tuple[str, dict]]:
    """Yield the place and object of each item of a list. While an item is incomplete, each further read is twice as long as the one before."""
    blocks, text, at, n_blocks = decoded_blocks(path), "", 0, 1
    for number in count():
        where = f"{path}, item {number}"
        while (found := _item(where, text, at, "," if number else "[")) is None:
            if not (more := "".join(islice(blocks, n_blocks))):
                raise AtlasError(f"{where}: no JSON: the file ends within its list; is it complete?")
            text, at, n_blocks = text[at:] + more, 0, 2 * n_blocks
            if len(text) > LONGEST_ROW:
                raise too_long_error(where)
        row, at = found
        if row is None:
            if text[at:].strip() or any(block.strip() for block in blocks):
                raise AtlasError(f"{path}: no JSON: text follows the end of its list")
            return
        yield where, row
        n_blocks = 1


def _item(where: str, text: str, at: int, mark: str) -> tuple[dict | None, int] | None:
    """Parse the next item, which follows `mark`, and find its end. The item is None at the end of the list; the result is None if the text ends too early."""
    at = SPACE.match(text, at).end()  # type: ignore[union-attr]
    if text[at : at + 1] == "]" and mark == ",":
        return None, at + 1
    if text[at : at + 1] not in ("", mark):
        raise AtlasError(f"{where}: no JSON: {text[at]!r} stands where {mark!r} should")
    at = SPACE.match(text, at + 1).end()  # type: ignore[union-attr]
    if at >= len(text):
        return None
    if text[at] == "]" and mark == "[":
        return None, at + 1
    if text[at] != "{":
        raise AtlasError(f"{where}: no JSON object, and each item of the list should be one")
    decoder = json.JSONDecoder(object_pairs_hook=lambda pairs: _unique_name_dict(where, pairs))
    try:
        return decoder.raw_decode(text, at)
    except json.JSONDecodeError as error:
        if error.msg.startswith("Unterminated string") or error.pos > len(text) - LONGEST_MARK:
            return None
        raise AtlasError(f"{where}: no JSON ({error.msg})") from error
    except (ValueError, RecursionError) as error:
        raise _no_json(where, error) from error


def _no_json(where: str, error: ValueError | RecursionError) -> AtlasError:
    if isinstance(error, json.JSONDecodeError):
        return AtlasError(f"{where}: no JSON ({error.msg} at character {error.pos}); what is read is one object a line, or in a .json file a list of objects")
    # a number of thousands of digits; lists within lists
    return AtlasError(f"{where}: JSON that cannot be read ({str(error).partition(';')[0]})")


def _unique_name_dict(where: str, pairs: list[tuple[str, object]]) -> dict[str, object]:
    check_names(where, [name for name, _ in pairs])
    return dict(pairs)
