//go:build race

package chaos_test

// slowness stretches the limits that depend on the machine: the race detector slows this run, and other packages share
// the cores.
const slowness = 5
