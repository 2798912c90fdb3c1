from sottovoce.deprecated import names_of

__getattr__ = names_of("sottovoce.models.embedded", "sottovoce.models.embedded.label_scorer")
