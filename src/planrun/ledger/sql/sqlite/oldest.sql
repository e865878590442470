SELECT id, job_id, attempt, namespace, kind, version, priority
  FROM job
 WHERE id IN
       ((SELECT id
           FROM job INDEXED BY job_ready
          WHERE kind = :kind AND version = :version AND namespace = :namespace
            AND state = 'queued' AND not_before_ms = 0 AND priority = 0
            AND (needs = '[]' OR NOT EXISTS
                 (SELECT 1 FROM json_each(job.needs) WHERE value NOT IN (SELECT value FROM json_each(:capabilities))))
          ORDER BY id
          LIMIT 1),
        (SELECT id
           FROM job INDEXED BY job_oldest
          WHERE kind = :kind AND version = :version AND namespace = :namespace
            AND state = 'queued' AND not_before_ms = 0 AND priority <> 0
            AND (needs = '[]' OR NOT EXISTS
                 (SELECT 1 FROM json_each(job.needs) WHERE value NOT IN (SELECT value FROM json_each(:capabilities))))
          ORDER BY id
          LIMIT 1))
 ORDER BY id
 LIMIT :limit;
