-- What a job last said of itself, and where that began: with its first fraction, or anew where it jumped back.
-- Fence: the attempt and token that own the job; called only after they renewed.
UPDATE attempt
   SET fraction = coalesce(:fraction, fraction), message = coalesce(:message, message),
       began_fraction = CASE WHEN fraction IS NULL OR :fraction < fraction THEN :fraction ELSE began_fraction END,
       began_at_ms = CASE WHEN fraction IS NULL OR :fraction < fraction THEN :wall_ms ELSE began_at_ms END
 WHERE job_id = :job_id AND attempt = :attempt AND token = :token AND outcome IS NULL;
