-- Remember which job a submit call led to.
-- Fence: the primary key; a request id leads to one job for ever.
INSERT INTO request(namespace, request_id, request_hash, job_id, created_at_ms)
VALUES (:namespace, :request_id, :request_hash, :job_id, :wall_ms);
