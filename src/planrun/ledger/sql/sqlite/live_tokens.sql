-- Those that are known and not over; of an earlier generation also those that a recovery forgot, whose holders may run on.
SELECT asked.value AS token FROM json_each(:tokens) AS asked LEFT JOIN attempt AS a ON a.token = asked.value
 WHERE (a.stopped = 0 AND (a.outcome IS NULL OR a.ended_at_ms > :silent_since_ms))
    OR (a.token IS NULL AND asked.value >> 40 < (SELECT v FROM meta WHERE k = 'generation')
        AND (SELECT v FROM meta WHERE k = 'recovered_at_ms') > :silent_since_ms);
