SELECT substr(k, 6) AS kind, v AS per_s FROM meta WHERE k GLOB 'rate:*';
