SELECT incarnation, name, host, namespaces, slots, capabilities, handlers, lock_file, lock_device, lock_inode, pid, state, seen_at_ms
  FROM worker
 WHERE incarnation IN (SELECT value FROM json_each(:incarnations));
