"""Run folders: their configuration, the store of records, the ranking and the winner."""
