"""Streamlit pages: they draw what `atlas` answers, and hold no SQL and no model."""
