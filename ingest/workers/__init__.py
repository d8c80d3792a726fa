"""Workers that compute shards, in this process or in others."""
