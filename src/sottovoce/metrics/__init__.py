"""How good written answers are: text metrics with intervals, by the libraries that the field uses, and a judge."""
