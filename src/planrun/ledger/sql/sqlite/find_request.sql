SELECT request_hash, job_id FROM request WHERE namespace = :namespace AND request_id = :request_id;
