"""What somebody typed, and files of strangers: what SQL may do, what it costs at most, and which values it may have."""
