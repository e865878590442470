SELECT count(*) AS elders
  FROM (SELECT 1
          FROM (SELECT needs FROM job INDEXED BY job_ready
                 WHERE kind = :kind AND version = :version AND namespace = :namespace
                   AND state = 'queued' AND not_before_ms = 0 AND priority = 0
                   AND id < (SELECT id FROM job WHERE job_id = :job_id)
                UNION ALL
                SELECT needs FROM job INDEXED BY job_oldest
                 WHERE kind = :kind AND version = :version AND namespace = :namespace
                   AND state = 'queued' AND not_before_ms = 0 AND priority <> 0
                   AND id < (SELECT id FROM job WHERE job_id = :job_id)) AS older
         WHERE needs = '[]' OR NOT EXISTS
               (SELECT 1 FROM json_each(older.needs) WHERE value NOT IN (SELECT value FROM json_each(:capabilities)))
         LIMIT :limit);
