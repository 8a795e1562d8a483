#!/bin/sh
# Checks that the sources are ready for a release, whose version without a v is the argument: the base images are pinned,
# module belfrytest requires the release, and the clients of other languages have its version. Both tags of a release,
# v0.1.0 and belfrytest/v0.1.0, name one commit.
set -eu
cd "$(dirname "$0")/../.."
deploy/docker/pin.sh check
if ! grep -qx "require github.com/belfryhq/belfry v$1" belfrytest/go.mod; then
  echo "belfrytest/go.mod must require github.com/belfryhq/belfry v$1" >&2
  exit 1
fi
has() {
  grep -qF -- "$2" "clients/$1" || { echo "clients/$1 must have the version of the release: $2" >&2; exit 1; }
}
has typescript/package.json "\"version\": \"$1\""
has python/pyproject.toml "version = \"$1\""
has java/pom.xml "<version>$1</version>"
has spring/pom.xml "<version>$1</version>"
