#!/bin/sh
# Checks that the sources are ready for a release, whose version without a v is the argument: the base images are pinned,
# and module belfrytest requires the release. Both tags of a release, v0.1.0 and belfrytest/v0.1.0, name one commit.
set -eu
cd "$(dirname "$0")/../.."
deploy/docker/pin.sh check
if ! grep -qx "require github.com/belfryhq/belfry v$1" belfrytest/go.mod; then
  echo "belfrytest/go.mod must require github.com/belfryhq/belfry v$1" >&2
  exit 1
fi
