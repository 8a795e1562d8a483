//go:build !chaos

package main

import "github.com/belfryhq/belfry/cluster"

// tune changes what only tests change.
func tune(cfg *cluster.Config) error { return nil }
