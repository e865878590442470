SELECT min(id) AS id
  FROM (SELECT min(first_id) AS id FROM span WHERE newest_at_ms >= :since_ms
        UNION ALL
        SELECT v + 1 FROM meta WHERE k = 'counted_to');
