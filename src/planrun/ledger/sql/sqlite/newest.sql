SELECT id
  FROM job
 WHERE id BETWEEN :since_id AND :until
   AND (:since_ms IS NULL OR created_at_ms >= :since_ms)
 ORDER BY id DESC
 LIMIT :limit;
