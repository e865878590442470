SELECT job_id, attempt, token FROM job WHERE state = 'running' AND incarnation = :incarnation;
