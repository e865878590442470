SELECT * FROM worker WHERE seen_at_ms >= :since_ms ORDER BY seen_at_ms DESC;
