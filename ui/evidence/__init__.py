"""The room of evidence: what the atlas says of the whole model, a topic at a time, each panel a question with its answer in a sentence."""
