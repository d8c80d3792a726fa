"""Typed SQL and files from strangers: what they may do, what they may cost, and which values come back."""
