-- What a job last said of itself.
-- Fence: the attempt and token that own the job; called only after they renewed.
UPDATE attempt
   SET fraction = coalesce(:fraction, fraction), message = coalesce(:message, message)
 WHERE job_id = :job_id AND attempt = :attempt AND token = :token AND outcome IS NULL;
