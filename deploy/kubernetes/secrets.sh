#!/bin/sh
# Prints the secrets of a cluster in Kubernetes, from the files that "belfry certs" and "belfry key new-root" make:
#
#   deploy/kubernetes/secrets.sh belfry-certs root.key | kubectl apply -n belfry -f -
#
# Run it again after "belfry certs add" or "belfry certs rotate". Nodes read changed secrets within about a minute. The
# authority's own key, cluster.pem, stays where it is.
set -eu

if [ $# -ne 2 ] || [ ! -d "$1/nodes" ] || [ ! -f "$2" ]; then
  echo "usage: secrets.sh FOLDER-OF-BELFRY-CERTS FILE-OF-ROOT-KEY" >&2
  exit 2
fi
certs=$1 root=$2

# entry NAME FILE prints one entry of a secret.
entry() { printf '  %s: %s\n' "$1" "$(base64 <"$2" | tr -d '\n')"; }

# secret NAME prints the beginning of a secret.
secret() { printf 'apiVersion: v1\nkind: Secret\nmetadata:\n  name: %s\ntype: Opaque\ndata:\n' "$1"; }

secret belfry-nodes
first=yes
for node in "$certs"/nodes/*; do
  name=${node##*/}
  if [ "$first" = yes ]; then # these two are the same for all nodes
    entry ca.pem "$node/ca.pem"
    entry gossip.key "$node/gossip.key"
    first=no
  fi
  entry "$name.pem" "$node/node.pem"
  entry "$name.key" "$node/node.key"
done
echo ---
secret belfry-root-key
entry root.key "$root"
