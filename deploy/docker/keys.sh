#!/bin/sh
# Makes the keys of the cluster in compose.yaml. Each step is done once: a repeat changes nothing.
#
#   keys.sh cluster    the certificates of the nodes, the root key and the cluster key, in /keys
#   keys.sh scrape     a key that may only read, for Prometheus, in /scrape; it asks a running node to make it
set -eu
umask 077
keys=${KEYS:-/keys} scrape=${SCRAPE:-/scrape}

case "${1:-}" in
  cluster)
    if [ ! -e "$keys"/certs/cluster.pem ]; then
      rm -rf "$keys"/certs
      belfry certs init --dir "$keys"/certs --on-node "$keys" node-1=node-1,localhost,127.0.0.1 \
        node-2=node-2,localhost,127.0.0.1 node-3=node-3,localhost,127.0.0.1
    fi
    if [ ! -e "$keys"/root.key ]; then
      belfry key new-root >"$keys"/root.key.new
      mv "$keys"/root.key.new "$keys"/root.key
    fi
    if [ ! -e "$keys"/cluster.key ]; then
      head -c 32 /dev/urandom | base64 >"$keys"/cluster.key.new
      mv "$keys"/cluster.key.new "$keys"/cluster.key
    fi
    ;;
  scrape)
    # Prometheus runs as another user, which reads nothing else of the keys.
    cat "$keys"/certs/nodes/node-1/ca.pem >"$scrape"/ca.pem
    chmod 0644 "$scrape"/ca.pem
    if [ ! -s "$scrape"/prometheus.key ]; then
      belfry key create prometheus --role read --namespace '*' --addr https://node-1:8400,https://node-2:8400 \
        --ca "$keys"/certs/nodes/node-1/ca.pem --key-file "$keys"/root.key >"$scrape"/prometheus.key.new
      chmod 0644 "$scrape"/prometheus.key.new
      mv "$scrape"/prometheus.key.new "$scrape"/prometheus.key
    fi
    ;;
  *)
    echo "usage: keys.sh cluster|scrape" >&2
    exit 2
    ;;
esac
