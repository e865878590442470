-- Workers that were not seen for long.
-- Fence: still not seen, and nothing of it may still run.
DELETE FROM worker
 WHERE incarnation IN (SELECT value FROM json_each(:incarnations)) AND seen_at_ms <= :before_ms
   AND NOT EXISTS (SELECT 1 FROM attempt AS a WHERE a.incarnation = worker.incarnation AND a.stopped = 0)
RETURNING incarnation;
