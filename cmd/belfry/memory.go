package main

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// tombstoneShare: what has ended may take a tenth of the memory that the node may use. Where that cannot be found out
// there is no bound.
const tombstoneShare = 10

// memoryLimit is GOMEMLIMIT if that is set, else the control group's limit, else the machine's memory; 0: not known.
func memoryLimit() int64 {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return limit
	}
	machine := memoryOfMachine("/proc/meminfo")
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is no number: no limit
		if err == nil && (machine == 0 || limit < machine) {
			return limit
		}
	}
	return machine
}

func memoryOfMachine(meminfo string) int64 {
	text, err := os.ReadFile(meminfo)
	if err != nil {
		return 0 // not a Linux machine
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "MemTotal:" {
			kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
			if err == nil {
				return kilobytes << 10
			}
		}
	}
	return 0
}
