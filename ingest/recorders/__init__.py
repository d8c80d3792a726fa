"""Recorders turn activations into rows: `triggers` those of the sweep, `values` those of the weights, `traces` those of sampled positions, and so on."""
