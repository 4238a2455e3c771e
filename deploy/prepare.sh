#!/bin/sh
# Write what compose.yaml needs beside it: passwords, the configuration of each server, folders for data, and .env.
# All of it belongs to the user who runs this, and so do the processes in the containers.
set -eu
umask 077
cd "$(dirname "$0")"
if test -e .env; then
    echo "prepare.sh: .env exists; remove .env, secrets and data to begin anew, which deletes all cells" >&2
    exit 1
fi

password() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
store=$(password) sentinel=$(password)
sentinels=sentinel-1:26379,sentinel-2:26379,sentinel-3:26379

mkdir -p secrets data/prometheus data/grafana data/agent-1 data/agent-2
echo "redis+sentinel://:$store@$sentinels/omega?sentinel_password=$sentinel" > secrets/store-url
password > secrets/grafana-password
password > secrets/web-token
password > secrets/web-metrics-token
hashed() { sha256sum < "$1" | cut -d" " -f1; }
{
    echo "sha256:$(hashed secrets/web-token) $(id -un) operator"
    echo "sha256:$(hashed secrets/web-metrics-token) prometheus reader"
} > secrets/web-tokens
for number in 1 2 3; do
    mkdir -p "data/store-$number" "data/sentinel-$number"
    {
        cat store.conf
        echo "requirepass $store"
        echo "masterauth $store"
        echo "replica-announce-ip store-$number"
        test "$number" = 1 || echo "replicaof store-1 6379"
    } > "data/store-$number/store.conf"
    {
        cat sentinel.conf
        echo "sentinel auth-pass omega $store"
        echo "sentinel announce-ip sentinel-$number"
        echo "requirepass $sentinel"
    } > "data/sentinel-$number/sentinel.conf"
done
printf 'OMEGA_OWNER=%s:%s\n' "$(id -u)" "$(id -g)" > .env
