"""Dramatiq's side of the house: it wakes, it never decides. Nothing imports this package."""
