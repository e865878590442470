SELECT id
  FROM job
 WHERE closing = 1
   AND (:namespace IS NULL OR namespace = :namespace)
   AND (:kind IS NULL OR kind = :kind)
   AND (:version IS NULL OR version = :version)
   AND id BETWEEN :since_id AND :until
   AND (:since_ms IS NULL OR created_at_ms >= :since_ms)
 ORDER BY id DESC
 LIMIT :limit;
