SELECT id, job_id, attempt, namespace, kind, version, priority
  FROM job
 WHERE kind = :kind AND version = :version AND namespace = :namespace AND state = 'queued' AND not_before_ms = 0
   AND (needs = '[]' OR NOT EXISTS
        (SELECT 1 FROM json_each(job.needs) WHERE value NOT IN (SELECT value FROM json_each(:capabilities))))
 ORDER BY priority DESC, id
 LIMIT :limit;
