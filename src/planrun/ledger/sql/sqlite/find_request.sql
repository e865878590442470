SELECT request_hash, job_id FROM job WHERE job_id = :own AND request_id IS NOT NULL
UNION ALL
SELECT request_hash, job_id FROM request WHERE namespace = :namespace AND request_id = :request_id;
