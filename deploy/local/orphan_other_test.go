//go:build unix && !linux

package local

func parent(string) int { return 1 }
