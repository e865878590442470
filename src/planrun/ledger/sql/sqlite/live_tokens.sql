-- Those that are known and not over; of an earlier generation also those that a recovery forgot, whose holders may run on.
SELECT value AS token FROM json_each(:tokens) LEFT JOIN attempt ON attempt.token = value
 WHERE (stopped = 0 AND (outcome IS NULL OR ended_at_ms > :silent_since_ms))
    OR (attempt.token IS NULL AND value >> 40 < (SELECT v FROM meta WHERE k = 'generation')
        AND (SELECT v FROM meta WHERE k = 'recovered_at_ms') > :silent_since_ms);
