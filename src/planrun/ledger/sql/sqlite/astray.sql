SELECT job_id, attempt, token, incarnation, outcome, error ->> 'message' AS why
  FROM attempt
 WHERE job_id IN (SELECT value FROM json_each(:job_ids)) AND outcome IS NOT NULL AND stopped = 0;
