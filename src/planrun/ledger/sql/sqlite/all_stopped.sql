-- A worker and its job trees are proven dead.
-- Fence: that incarnation, and attempts that no longer run.
UPDATE attempt
   SET stopped = 1
 WHERE incarnation = :incarnation AND stopped = 0 AND outcome IS NOT NULL;
