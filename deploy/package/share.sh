#!/bin/sh
# Writes the manual pages and the completions of shells, which the packages install below /usr/share, into bin/share. The
# argument is the program that writes them; without one, it is built.
set -eu
cd "$(dirname "$0")/../.."
rm -rf bin/share
mkdir -p bin/share
program=${1:-}
if [ -z "$program" ]; then
  program=bin/share/belfry
  # A release sets these for the platform that it builds for.
  GOOS='' GOARCH='' go build -o "$program" ./cmd/belfry
fi
"$program" man --to bin/share/man1
gzip -9n bin/share/man1/*
"$program" completion bash >bin/share/belfry.bash
"$program" completion zsh >bin/share/_belfry
"$program" completion fish >bin/share/belfry.fish
