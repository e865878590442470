SELECT id
  FROM job INDEXED BY job_holder
 WHERE state = 'running'
   AND namespace = :namespace AND kind = :kind AND version = :version
   AND id BETWEEN :since_id AND :until
   AND (:since_ms IS NULL OR created_at_ms >= :since_ms)
 ORDER BY id DESC
 LIMIT :limit;
