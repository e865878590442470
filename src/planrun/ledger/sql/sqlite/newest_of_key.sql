SELECT id
  FROM job INDEXED BY job_named
 WHERE key = :key
   AND id BETWEEN :since_id AND :until
   AND (:namespace IS NULL OR namespace = :namespace)
   AND (:kind IS NULL OR kind = :kind)
   AND (:version IS NULL OR version = :version)
   AND (:state IS NULL OR CASE closing WHEN 1 THEN 'running' ELSE state END = :state)
   AND (:since_ms IS NULL OR created_at_ms >= :since_ms)
 ORDER BY id DESC
 LIMIT :limit;
