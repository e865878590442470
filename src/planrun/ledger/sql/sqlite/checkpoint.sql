-- What the next attempt may start from.
-- Fence: running, at exactly this attempt and token, and newer than what stands.
UPDATE job
   SET checkpoint = :checkpoint, handbacks = 0
 WHERE job_id = :job_id AND state = 'running' AND attempt = :attempt AND token = :token
   AND (json_array_length(checkpoint) = 0
        OR (checkpoint ->> '$[0].attempt', checkpoint ->> '$[0].seq') < (:attempt, :seq))
RETURNING job_id;
