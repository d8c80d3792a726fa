"""What holds shards and what is loaded of them: working folders, transactions, snapshots, lakes, and their repair."""
