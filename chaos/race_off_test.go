//go:build !race

package chaos_test

// slowness stretches what depends on the machine: `go test ./...` runs other packages beside this one.
const slowness = 2
