//go:build !race

package localtest

const underRace = false
