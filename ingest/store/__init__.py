"""Storage of shards and of the rows loaded from them: working folders, transactions, snapshots, lakes, and their repair."""
