"""One script a format of the ledger. A script never changes once a ledger was written in its format."""
