//go:build !race

package chaos_test

// slowness stretches the limits that depend on the machine: `go test ./...` runs other packages beside this one.
const slowness = 2
