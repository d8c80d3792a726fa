"""Typed SQL and files of strangers: what they may do, what they may cost, and which values come back."""
