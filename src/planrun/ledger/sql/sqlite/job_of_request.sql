SELECT job_id FROM request WHERE request_id = :request_id AND (:namespace IS NULL OR namespace = :namespace) LIMIT 1;
