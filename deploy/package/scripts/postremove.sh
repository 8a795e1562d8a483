#!/bin/sh
# Runs after the removal. The data folder and the keys stay, also when dpkg purges the package: they are the tasks of a
# cluster and the identity of one of its nodes.
set -e

if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi

case "$1" in
  purge | 0)
    echo "Belfry's data in /var/lib/belfry and its keys in /etc/belfry stay. Remove them yourself, once the node is out"
    echo "of its cluster (belfry node remove)."
    ;;
esac
