-- The files of these results are garbage now, which the collector removes. In a fleet a log lies there in any case.
-- Fence: the winner of a job whose result nobody gets any more.
UPDATE attempt
   SET collected = 0
 WHERE job_id IN (SELECT value FROM json_each(:job_ids))
   AND EXISTS (SELECT 1 FROM job AS j JOIN result AS r ON r.job_id = j.job_id
                WHERE j.job_id = attempt.job_id AND j.result_gone_at_ms IS NOT NULL
                  AND r.token = attempt.token AND (r.outputs <> '[]' OR EXISTS (SELECT 1 FROM meta WHERE k = 'beat_epoch')));
