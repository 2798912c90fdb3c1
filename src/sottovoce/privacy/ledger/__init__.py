from sottovoce.deprecated import names_of

__getattr__ = names_of("sottovoce.privacy.ledger", "sottovoce.privacy.ledger.ledger")
