SELECT (SELECT v FROM meta WHERE k = 'clock_epoch')                                              AS epoch,
       (SELECT min(lease_until_ms) FROM job WHERE state = 'running')                             AS lease_ms,
       (SELECT min(not_before_ms) FROM job WHERE state = 'queued' AND not_before_ms > 0)         AS delayed_ms,
       (SELECT min(not_before_ms) FROM outbox WHERE confirmed = 0)                               AS message_ms,
       (SELECT min(deadline_at_ms) FROM job WHERE deadline_at_ms IS NOT NULL AND ended_at_ms IS NULL) AS deadline_at_ms;
