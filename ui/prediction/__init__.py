"""The Prediction room: one prediction of a corpus or of a live prompt, taken apart."""
