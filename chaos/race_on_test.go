//go:build race

package chaos_test

// slowness stretches what depends on the machine: the race detector slows this run, and others share the cores.
const slowness = 5
