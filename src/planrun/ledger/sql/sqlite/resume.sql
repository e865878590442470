-- These jobs may be started again.
-- Fence: the open pause of exactly this set.
UPDATE pause SET resumed_at_ms = :wall_ms, resumed_who = :who, resumed_why = :why
 WHERE namespace = :namespace AND kind = :kind AND resumed_at_ms IS NULL
RETURNING id;
