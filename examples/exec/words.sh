#!/bin/sh
# words.sh FILE: counts the words of a text.
set -eu

if [ ! -s "$1" ]; then
    echo "error permanent [empty] there is nothing to count" >&3
    exit 1
fi
echo "progress 0 counting" >&3
tr -cs '[:alpha:]' '\n' < "$1" | sort | uniq -c | sort -rn > out/counts.txt
words=$(wc -w < "$1")
echo "value {\"words\": $words}" >&3
