SELECT incarnation, name, host, namespaces, slots, capabilities, handlers, lock_file, lock_device, lock_inode, pid, state, seen_at_ms
  FROM worker
 WHERE seen_at_ms >= :since_ms
 ORDER BY seen_at_ms DESC;
