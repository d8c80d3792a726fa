"""Who ended the process of a typed statement: the process itself at its limits, or whoever asked, in the end."""

from typing import IO

import pytest

from atlas.typed import sandbox
from tests.waiting import HANG_S


def require_own_end(patched: pytest.MonkeyPatch) -> None:
    """Let whoever asks be patient, and raise AssertionError where it ends the process all the same: both are told as the same error."""
    read_until = sandbox.read_until

    def read(stream: IO[bytes], deadline: float, most: int) -> bytes | None:
        said = read_until(stream, deadline, most)
        assert said is not None, "the process went on past its limits"
        return said

    patched.setattr(sandbox, "START", HANG_S)
    patched.setattr(sandbox, "read_until", read)
