"""Who computes shards, in this process or in others."""
