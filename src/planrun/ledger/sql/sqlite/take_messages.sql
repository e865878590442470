-- Take messages that are owed now; they are due again later unless one gets confirmed.
-- Fence: unconfirmed and due. Two publishers at once send the same bytes twice, which receivers drop by msg_id.
UPDATE outbox
   SET tries = tries + 1, not_before_ms = :now_ms + max(:retry_ms, min(300000, 1000 * (1 << min(tries + 1, 9))))
 WHERE msg_id IN (SELECT msg_id FROM outbox WHERE confirmed = 0 AND not_before_ms <= :now_ms ORDER BY not_before_ms LIMIT :limit)
RETURNING msg_id, route, body, tries;
