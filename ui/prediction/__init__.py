"""The Prediction page: one prediction of a corpus or of a live prompt, taken apart."""
