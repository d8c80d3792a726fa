"""Limits on typed SQL and on files from strangers: what a statement may use, how much time and memory it may take, and which values it may return."""
