"""The crash kit: real workers, private servers, seeded faults, and judges that keep their own log.

A provider's own log of what it accepted decides, and not the product's tables. Every part can be
used alone: the tests of the product do so.
"""
