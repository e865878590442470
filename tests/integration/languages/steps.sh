#!/bin/sh
# steps.sh STARTS HINT ATTEMPT STEPS STEP_S END CHECKPOINT
trap : TERM
echo "$2/$3 $$ $(cut -d' ' -f1 /proc/uptime)" >> "$1"
steps=$4 step_s=$5 end=$6 from=$7

if [ "$end" = brood ]; then
    setsid sleep 600 &
    sleep 600 &
    wait
    wait
fi

done=0
if [ -n "$from" ]; then done=$(cat "$from/done"); fi
began=$done
mkdir -p checkpoint
while [ "$done" -lt "$steps" ]; do
    sleep "$step_s"
    done=$((done + 1))
    echo "progress $done/$steps step $done" >&3
    echo "$done" > checkpoint/done
    echo checkpoint >&3
    until read -r answer <&4; do :; done
    if [ "$answer" = stop ]; then exit 0; fi
done

echo "last words"
case $end in
    line-*) echo "error ${end#line-} [as-asked] it was asked to" >&3 ;;
    exit-*) exit "${end#exit-}" ;;
    signal) kill -SEGV $$ ;;
esac
echo "$done" > out/count.txt
echo "value {\"began\": $began, \"done\": $done}" >&3
