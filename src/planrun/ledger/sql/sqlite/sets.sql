SELECT namespace, kind, version, state
  FROM counted
 WHERE (:namespace IS NULL OR namespace = :namespace)
   AND (:kind IS NULL OR kind = :kind)
   AND (:version IS NULL OR version = :version)
   AND (:state IS NULL OR state = :state);
