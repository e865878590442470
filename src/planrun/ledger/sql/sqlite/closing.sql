SELECT id, job_id FROM job WHERE closing = 1 AND id > :after ORDER BY id LIMIT :limit;
