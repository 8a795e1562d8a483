package headroom

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Machine returns how much memory the machine has, and how much of it is available without swapping.
func (System) Machine() (Machine, error) { return readMeminfo("/proc/meminfo") }

func readMeminfo(path string) (Machine, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Machine{}, err
	}
	var m Machine
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		field := map[string]*int64{"MemTotal": &m.Total, "MemAvailable": &m.Available}[name]
		if field == nil {
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		if err != nil {
			return Machine{}, fmt.Errorf("%s: %s is %q: %w", path, name, strings.TrimSpace(value), err)
		}
		*field = kilobytes << 10
	}
	if m.Total == 0 || m.Available == 0 {
		return Machine{}, fmt.Errorf("%s does not say how much memory is available", path)
	}
	return m, nil
}
