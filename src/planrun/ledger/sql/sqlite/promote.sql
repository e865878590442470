-- Delayed jobs that have come due join the line, by their age.
-- Fence: still queued and due.
UPDATE job SET not_before_ms = 0
 WHERE id IN (SELECT id FROM job WHERE state = 'queued' AND not_before_ms > 0 AND not_before_ms <= :now_ms LIMIT :limit)
RETURNING job_id;
