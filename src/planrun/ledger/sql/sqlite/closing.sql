SELECT job_id FROM job WHERE closing = 1 ORDER BY id LIMIT :limit;
