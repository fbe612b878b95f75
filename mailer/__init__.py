"""A transactional-email outbox."""
