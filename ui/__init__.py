"""Where the Streamlit pages will live: they draw what `atlas` answers, and hold no SQL and no model."""
