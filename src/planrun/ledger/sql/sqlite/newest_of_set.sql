SELECT id
  FROM job INDEXED BY job_set
 WHERE namespace = :namespace AND kind = :kind AND version = :version AND state = :state AND ended_at_ms IS NOT NULL
   AND id BETWEEN :since_id AND :until
   AND (:closing_too OR id NOT IN (SELECT id FROM job WHERE closing = 1))
   AND (:since_ms IS NULL OR created_at_ms >= :since_ms)
 ORDER BY id DESC
 LIMIT :limit;
