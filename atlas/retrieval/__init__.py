"""Retrievals: neighbours of a text's positions among the keys of other text, what they predict, and what that adds to the model (Khandelwal et al. 2020).

No torch: keys are files beside the atlas, which an ingest with --keys has written, and what is found lies in NAME.retrievals.duckdb.
"""
