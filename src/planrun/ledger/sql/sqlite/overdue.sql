SELECT job_id FROM job
 WHERE deadline_at_ms IS NOT NULL AND ended_at_ms IS NULL AND deadline_at_ms <= :wall_ms
 ORDER BY deadline_at_ms LIMIT :limit;
