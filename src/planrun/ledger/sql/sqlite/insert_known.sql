-- A job that only another history of this ledger knew, as its manifest tells of it.
-- Fence: no such job here. Its key is free until it is known whether it finished.
INSERT INTO job(job_id, namespace, kind, version, inputs, params, needs, content_hash, key, key_open, retry_of, priority,
                attempt, created_at_ms, request_id, request_hash)
VALUES (:job_id, :namespace, :kind, :version, :inputs, :params, :needs, :content_hash, :key, 0, :retry_of, :priority,
        :attempt, :created_at_ms, :request_id, :request_hash)
ON CONFLICT DO NOTHING;
