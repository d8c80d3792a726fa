"""The model in a process of its own: prompts in, the atlas's own tables out."""
