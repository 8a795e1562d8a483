package headroom

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReadMeminfo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "meminfo")
	for text, want := range map[string]Machine{
		"MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\n": {2 << 20, 1 << 20},
		"MemTotal: 2048 kB\n":                        {},
		"MemTotal: many kB\nMemAvailable: 1024 kB\n": {},
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readMeminfo(file); got != want || (err == nil) != (want != Machine{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if m, err := (System{}).Machine(); err != nil || m.Available <= 0 || m.Available > m.Total {
		t.Errorf("of this machine: %+v, %v", m, err)
	}
}
