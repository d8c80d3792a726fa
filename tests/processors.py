"""Run the tests of numbers as other processors would compute them, one setting after the other, and say in one table what came of each.

A setting takes from torch, oneDNN, MKL or numba the instructions that this processor has and others lack, or gives a pass two threads.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import click

ROOT = Path(__file__).parents[1]
NUMBERS = ("tests/exact", "tests/ingest", "tests/live", "tests/experiments", "tests/schema/test_audits.py")
SETTINGS = (
    "OMP_NUM_THREADS=1",
    "OMP_NUM_THREADS=2",
    "ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41",
    "ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2",
    "ONEDNN_MAX_CPU_ISA=AVX2",
    "MKL_CBWR=COMPATIBLE",
    "NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES=",
)
"""The first is this processor as it is. ATen's goes with oneDNN's: for attention in bfloat16 torch asks oneDNN what the processor can, and ATen to do it."""


def run_tests(setting: str, arguments: tuple[str, ...]) -> tuple[int, int, float]:
    """Run pytest under a setting: how many tests passed and failed, and the seconds; what pytest did not get to say counts as a failure."""
    changed = dict(assignment.split("=", 1) for assignment in setting.split())
    start = time.monotonic()
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n", "3", "--dist", "loadfile", f"--junitxml={report}", *arguments]
        code = subprocess.run(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1", **changed}).returncode
        seconds = time.monotonic() - start
        if not report.is_file():
            return 0, 1, seconds
        suite = next(ElementTree.parse(report).iter("testsuite")).attrib
    n_failed = int(suite["failures"]) + int(suite["errors"])
    return int(suite["tests"]) - n_failed - int(suite["skipped"]), n_failed or int(code != 0), seconds


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--setting", "settings", multiple=True, default=SETTINGS, help="Variables of the environment, NAME=value; may be repeated.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def main(settings: tuple[str, ...], arguments: tuple[str, ...]) -> None:
    """Run the tests of numbers, or those that ARGUMENTS of pytest name, under each setting."""
    rows = []
    for setting in settings:
        click.echo(f"== {setting}")
        rows.append((setting, *run_tests(setting, arguments or NUMBERS)))
    click.echo(f"\n{'setting':<44}{'passed':>8}{'failed':>8}{'seconds':>9}")
    for setting, n_passed, n_failed, seconds in rows:
        click.echo(f"{setting:<44}{n_passed:>8,}{n_failed:>8,}{seconds:>9,.0f}")
    sys.exit(any(n_failed for _, _, n_failed, _ in rows))


if __name__ == "__main__":
    main()
