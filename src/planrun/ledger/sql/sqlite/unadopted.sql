SELECT value AS job_id FROM json_each(:job_ids)
 WHERE NOT EXISTS (SELECT 1 FROM job WHERE job_id = value AND ended_at_ms IS NOT NULL AND closing = 0)
   AND NOT EXISTS (SELECT 1 FROM archived WHERE job_id = value);
