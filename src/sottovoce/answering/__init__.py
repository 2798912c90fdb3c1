"""Private long answers: what a record's experts wrote becomes one text, within a budget."""
