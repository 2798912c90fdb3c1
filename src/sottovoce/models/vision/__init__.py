from sottovoce.deprecated import names_of

__getattr__ = names_of("sottovoce.models.vision", "sottovoce.models.vision.label_scorer")
