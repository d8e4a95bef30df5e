"""Other packages' names for what shardsolve does."""
