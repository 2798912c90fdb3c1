from sottovoce.deprecated import names_of

__getattr__ = names_of("sottovoce.methods.decoding", "sottovoce.methods.decoding.decoder")
