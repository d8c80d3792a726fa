"""What comes of the rules of a kind of file beside an atlas."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from schema.audits import Finding, companion_audits, run_audit
from schema.open.kinds import Companion
from schema.open.open_with_beside import open_with_beside


def findings(path: Path, kind: Companion) -> Iterator[Finding]:
    with closing(open_with_beside(path)) as con:
        yield from [run_audit(con, audit) for audit in companion_audits(kind)]


def broken(path: Path, kind: Companion) -> list[str]:
    """Names of the audits that some rows break."""
    return [finding.audit.name for finding in findings(path, kind) if finding.n_rows]
