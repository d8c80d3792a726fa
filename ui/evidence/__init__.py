"""The Evidence page: what the atlas shows of the whole model, one topic at a time; each panel is a question with its answer in a sentence."""
