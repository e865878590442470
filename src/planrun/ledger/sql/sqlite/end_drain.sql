-- A drain is over: undone by somebody, or the worker goes.
-- Fence: the open drain of this worker.
UPDATE drain SET ended_at_ms = :wall_ms, undone = :undone, undone_who = :who, undone_why = :why
 WHERE incarnation = :incarnation AND ended_at_ms IS NULL;
