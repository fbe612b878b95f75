"""The protocol as a small model, and an explorer that walks all of it: `docs/protocol.md`."""
