"""Kinds of models by name, one file each. What is heavy is imported when a model is opened, never by these files."""
