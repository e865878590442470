SELECT coalesce(sum(priority > :priority), 0) AS urgent, coalesce(sum(priority = :priority), 0) AS older
  FROM (SELECT priority
          FROM job
         WHERE kind = :kind AND version = :version AND namespace = :namespace AND state = 'queued' AND not_before_ms = 0
           AND priority >= :priority
           AND (priority > :priority OR id < (SELECT id FROM job WHERE job_id = :job_id))
           AND (needs = '[]' OR NOT EXISTS
                (SELECT 1 FROM json_each(job.needs) WHERE value NOT IN (SELECT value FROM json_each(:capabilities))))
         LIMIT :limit);
