#!/bin/sh
# Accounts of a fleet in a RabbitMQ, each with the rights that it needs and no more. May be run again.
#
#   ORCHESTRATOR_PASSWORD=… WORKER_PASSWORD=… ./accounts.sh
#
# On the broker's machine, as whoever may call rabbitmqctl. PREFIX is --broker-prefix (pr), VHOST the virtual host (/).
set -eu
: "${ORCHESTRATOR_PASSWORD:?}" "${WORKER_PASSWORD:?}"
prefix=${PREFIX:-pr} vhost=${VHOST:-/}
own=$(printf %s "$prefix" | sed 's/\./\\./g')

account() { # name, password
    printf '%s\n' "$2" | rabbitmqctl -q add_user "$1" 2>/dev/null || printf '%s\n' "$2" | rabbitmqctl -q change_password "$1"
}

rights() { # name, what it may declare and delete, write to, read from
    rabbitmqctl -q set_permissions -p "$vhost" "$@"
}

# The orchestrator owns all that begins with the prefix. amq.default is the way into a queue by its name: offers, words
# to workers, and answers to the queues of applications.
account "$prefix-orchestrator" "$ORCHESTRATOR_PASSWORD"
rights "$prefix-orchestrator" "^$own\\." "^($own\\..*|amq\\.default)\$" "^$own\\."

# A worker takes offers, hears what it is told, and sends heartbeats. It neither reads heartbeats nor deletes their place.
account "$prefix-worker" "$WORKER_PASSWORD"
rights "$prefix-worker" "^$own\\.(offers\\..*|ctl\\..*|orphan|dead)\$" "^($own\\.beats|amq\\.default)\$" "^$own\\.(offers|ctl)\\."
