-- Take in a job.
-- Fence: job_id is derived from the request id, and one open job per key is a unique index.
INSERT INTO job(job_id, namespace, kind, version, inputs, params, needs, content_hash, key, retry_of, priority,
                max_attempts, not_before_ms, created_at_ms, deadline_at_ms, request_id, request_hash, asked_who, asked_why)
VALUES (:job_id, :namespace, :kind, :version, :inputs, :params, :needs, :content_hash, :key, :retry_of, :priority,
        :max_attempts, :not_before_ms, :wall_ms, :deadline_at_ms, :request_id, :request_hash, :who, :why);
