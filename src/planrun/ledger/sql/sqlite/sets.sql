SELECT namespace, kind, version, state
  FROM tally
 WHERE jobs > 0
   AND (:namespace IS NULL OR namespace = :namespace)
   AND (:kind IS NULL OR kind = :kind)
   AND (:version IS NULL OR version = :version)
   AND (:state IS NULL OR state = :state);
