#!/bin/sh
# Pins the images that Dockerfile, release.Dockerfile and compose.yaml take from others, by the digests that their tags
# have in the registries now: NAME:TAG becomes NAME:TAG@sha256:…. A repeat brings new digests. Needs docker with buildx.
#
#   pin.sh          pins them
#   pin.sh check    names those without a digest, and fails if there are any: no release is made of them
set -eu
cd "${FOLDER:-$(dirname "$0")}"
files="Dockerfile release.Dockerfile compose.yaml"

# The images of compose.yaml that begin with "belfry:" are built from Dockerfile.
images() {
  sed -n -e 's/^FROM \(--platform=[^ ]* \)\{0,1\}\([^ ]*:[^ ]*\).*/\2/p' -e 's/^ *image: *\([^ ]*\)$/\1/p' $files |
    grep -v '^belfry:' | sort -u
}

case "${1:-}" in
  check)
    loose=$(images | grep -v '@sha256:[0-9a-f]\{64\}$' || true)
    if [ -n "$loose" ]; then
      echo "no digest, run deploy/docker/pin.sh:" $loose >&2
      exit 1
    fi
    ;;
  "")
    for image in $(images); do
      tag=${image%@*}
      pinned=$tag@$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$tag")
      for file in $files; do
        sed -e "s#$image #$pinned #" -e "s#$image\$#$pinned#" "$file" >"$file.new"
        cat "$file.new" >"$file"
        rm "$file.new"
      done
    done
    ;;
  *)
    echo "usage: pin.sh [check]" >&2
    exit 2
    ;;
esac
