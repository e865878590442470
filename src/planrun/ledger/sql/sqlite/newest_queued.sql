SELECT id
  FROM (SELECT id, created_at_ms FROM job INDEXED BY job_ready
         WHERE kind = :kind AND version = :version AND namespace = :namespace
           AND state = 'queued' AND not_before_ms = 0 AND priority = 0
           AND id BETWEEN :since_id AND :until
        UNION ALL
        SELECT id, created_at_ms FROM job INDEXED BY job_oldest
         WHERE kind = :kind AND version = :version AND namespace = :namespace
           AND state = 'queued' AND not_before_ms = 0 AND priority <> 0
           AND id BETWEEN :since_id AND :until
        UNION ALL
        SELECT id, created_at_ms FROM job INDEXED BY job_later
         WHERE kind = :kind AND version = :version AND namespace = :namespace
           AND state = 'queued' AND not_before_ms > 0
           AND id BETWEEN :since_id AND :until)
 WHERE :since_ms IS NULL OR created_at_ms >= :since_ms
 ORDER BY id DESC
 LIMIT :limit;
