from sottovoce.deprecated import names_of

__getattr__ = names_of("sottovoce.synthesis", "sottovoce.synthesis.synthesizer")
