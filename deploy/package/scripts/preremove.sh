#!/bin/sh
# Stops the node before the package is removed. dpkg gives "remove", and rpm gives 0. An upgrade stops nothing.
set -e

case "$1" in
  remove | 0)
    if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
      systemctl disable --now belfry.service
    fi
    ;;
esac
