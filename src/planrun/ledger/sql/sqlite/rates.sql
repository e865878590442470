SELECT substr(k, 6) AS kind, v AS per_s FROM meta WHERE k >= 'rate:' AND k < 'rate;';
