SELECT msg_id FROM outbox WHERE confirmed = 1 AND confirmed_at_ms <= :before_ms ORDER BY confirmed_at_ms LIMIT :limit;
