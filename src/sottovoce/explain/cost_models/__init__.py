"""Prices of private long answers, and of steps in general, one file each; the folder is scanned."""
