-- A sign of life of workers, for people and for routing.
-- Fence: none needed; a time stamp decides no lease.
UPDATE worker SET seen_at_ms = :wall_ms WHERE incarnation IN (SELECT value FROM json_each(:incarnations));
