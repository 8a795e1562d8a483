#!/bin/sh
# Runs after the files of the package are in place. dpkg gives "configure" and the former version, if any; rpm gives 1
# for the first installation and 2 for an upgrade. Nothing is started or restarted: a cluster is upgraded one node after
# the other, and an upgrade of all machines at night must not restart all nodes at once.
set -e

root=${DPKG_ROOT:-} # set if dpkg installs into another folder, without chroot

# The user exists afterwards, also without systemd.
if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers ${root:+--root="$root"} belfry.conf
elif ! grep -q '^belfry:' "$root/etc/passwd"; then
  groupadd --system ${root:+--prefix "$root"} belfry
  useradd --system ${root:+--prefix "$root"} --gid belfry --home-dir /var/lib/belfry --no-create-home \
    --shell /usr/sbin/nologin belfry
fi

# The numbers are those of the folder that the package is installed into, not those of this machine.
user=$(sed -n 's/^belfry:[^:]*:\([0-9]*\):.*/\1/p' "$root/etc/passwd")
group=$(sed -n 's/^belfry:[^:]*:\([0-9]*\):.*/\1/p' "$root/etc/group")
chown "0:${group:-belfry}" "$root/etc/belfry" "$root/etc/belfry/belfry.yaml"
chmod 0750 "$root/etc/belfry"
chmod 0640 "$root/etc/belfry/belfry.yaml"
if [ ! -d "$root/var/lib/belfry" ]; then
  mkdir -p "$root/var/lib"
  mkdir -m 0700 "$root/var/lib/belfry"
  chown "${user:-belfry}:${group:-belfry}" "$root/var/lib/belfry"
fi

if [ -z "$root" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi

first=no
case "$1" in
  configure) [ -n "$2" ] || first=yes ;;
  1) first=yes ;;
esac
if [ "$first" = yes ]; then
  cat <<'TEXT'
Belfry is installed and not started. Its settings are in /etc/belfry/belfry.yaml: as they stand, they run one node that
only this machine can call. To start it, now and at each boot:
  systemctl enable --now belfry
TEXT
else
  cat <<'TEXT'
A running node goes on with the former build. Restart the nodes of a cluster one after the other:
  systemctl restart belfry
The command returns when the node is ready. Go on to the next node when "belfry doctor" reports nothing but
versions-mixed.
TEXT
fi
