-- Extend leases. `beats` is a JSON list of [job, attempt, token, length of the lease in ms].
-- Fence: running, at exactly this attempt and token. Never shortens.
UPDATE job
   SET lease_until_ms = max(lease_until_ms, :now_ms + beat.lease_ms)
  FROM (SELECT value ->> 0 AS job_id, value ->> 1 AS attempt, value ->> 2 AS token, value ->> 3 AS lease_ms
          FROM json_each(:beats)) AS beat
 WHERE job.job_id = beat.job_id AND job.state = 'running' AND job.attempt = beat.attempt AND job.token = beat.token
RETURNING job_id, attempt, token;
