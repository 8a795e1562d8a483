#!/bin/sh
# Makes the keys of the cluster in compose.yaml. Each step is done once: a repeat changes nothing.
#
#   keys.sh cluster    the authority, the certificates of the nodes, the root key and the cluster key, in /keys; and for
#                      each node a folder with its own and the shared ones, in /own
#   keys.sh scrape     a key that may only read, for Prometheus, in /scrape, by the keys of a node in /keys; it asks a
#                      running node to make it
set -eu
umask 077
keys=${KEYS:-/keys} own=${OWN:-/own} scrape=${SCRAPE:-/scrape}

case "${1:-}" in
  cluster)
    if [ ! -e "$keys"/certs/cluster.pem ]; then
      rm -rf "$keys"/certs
      belfry certs init --dir "$keys"/certs --on-node /keys node-1=node-1,localhost,127.0.0.1 \
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
    for node in node-1 node-2 node-3; do
      cp "$keys"/root.key "$keys"/cluster.key "$keys"/certs/nodes/$node/*.pem "$keys"/certs/nodes/$node/*.key "$own"/$node/
    done
    ;;
  scrape)
    # Prometheus runs as another user, which reads nothing else of the keys.
    cat "$keys"/ca.pem >"$scrape"/ca.pem
    chmod 0644 "$scrape"/ca.pem
    if [ ! -s "$scrape"/prometheus.key ]; then
      belfry key create prometheus --role read --namespace '*' --addr https://node-1:8400,https://node-2:8400 \
        --ca "$keys"/ca.pem --key-file "$keys"/root.key >"$scrape"/prometheus.key.new
      chmod 0644 "$scrape"/prometheus.key.new
      mv "$scrape"/prometheus.key.new "$scrape"/prometheus.key
    fi
    ;;
  *)
    echo "usage: keys.sh cluster|scrape" >&2
    exit 2
    ;;
esac
