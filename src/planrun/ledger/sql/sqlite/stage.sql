-- What an attempt is about to upload.
-- Fence: running, at exactly this attempt and token.
UPDATE attempt
   SET staged = :staged
 WHERE job_id = :job_id AND attempt = :attempt
   AND EXISTS (SELECT 1 FROM job WHERE job_id = :job_id AND state = 'running' AND attempt = :attempt AND token = :token)
RETURNING job_id;
