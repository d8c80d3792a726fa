"""Recorders turn activations into rows: `keys` for the sweep, `values` for the weights, `traces` for sampled positions."""
