SELECT job_id FROM job WHERE state = 'running' AND incarnation = :incarnation ORDER BY id LIMIT :limit;
