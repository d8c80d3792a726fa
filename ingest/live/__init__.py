"""The model in a process of its own, which receives prompts and returns tables of the atlas's own form."""
