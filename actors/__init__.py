"""Dramatiq's side of the house: it wakes, it never decides.

Nothing imports this package; hints, the embedded worker and the demo load it by name when used.
"""
