from sottovoce.deprecated import names_of

__getattr__ = names_of("sottovoce.planner", "sottovoce.planner.advise")
