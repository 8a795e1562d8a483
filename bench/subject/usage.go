package subject

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Usage is what a process uses of the machine, and those that it has started.
type Usage struct {
	RSS int64         // bytes
	CPU time.Duration // since they began, of descendants that have ended too
}

// UsageOf reads the usage of each of some processes from /proc, with that of its descendants; elsewhere than on Linux
// it is an error. What a descendant shares with others counts to it in proportion (PSS), so that a server that forks is
// not counted many times.
func UsageOf(pids ...int) ([]Usage, error) {
	if len(pids) == 0 {
		return nil, nil
	}
	children, err := childrenByParent()
	if err != nil {
		return nil, err
	}
	all := make([]Usage, len(pids))
	for i, pid := range pids {
		if all[i], err = usageOf(pid, descendants(children, pid)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func usageOf(pid int, descendants []int) (Usage, error) {
	rss, err := field(pid, "status", "VmRSS:")
	if err != nil {
		return Usage{}, err
	}
	cpu, err := cpuOf(pid)
	if err != nil {
		return Usage{}, err
	}
	sum := Usage{RSS: rss, CPU: cpu}
	for _, descendant := range descendants {
		if err := sum.addDescendant(descendant); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// addDescendant counts nothing for a process that has ended meanwhile.
func (u *Usage) addDescendant(pid int) error {
	pss, err := field(pid, "smaps_rollup", "Pss:")
	if err == nil {
		var cpu time.Duration
		cpu, err = cpuOf(pid)
		u.RSS += pss
		u.CPU += cpu
	}
	if gone(err) {
		return nil
	}
	return err
}

func descendants(children map[int][]int, pid int) []int {
	var all []int
	for _, c := range children[pid] {
		all = append(append(all, c), descendants(children, c)...)
	}
	return all
}

func childrenByParent() (map[int][]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	if len(stats) == 0 {
		return nil, errors.New("there is no /proc to read memory and CPU time from")
	}
	children := make(map[int][]int)
	for _, path := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		fields, err := statFields(pid)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		children[int(fields[0])] = append(children[int(fields[0])], pid)
	}
	return children, nil
}

// cpuOf is the processor time of a process, with that of its children that have ended and were waited for.
func cpuOf(pid int) (time.Duration, error) {
	fields, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	const utime, ticksPerSecond = 10, 100 // the kernel's USER_HZ, the same on every architecture that Go runs on
	ticks := fields[utime] + fields[utime+1] + fields[utime+2] + fields[utime+3]
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// statFields are the numbers of /proc/PID/stat from the parent's process id on, as proc(5) lists them, up to cstime.
func statFields(pid int) ([]int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	_, rest, found := bytes.Cut(data[max(0, bytes.LastIndexByte(data, ')')):], []byte(") ")) // the name may hold anything
	words := strings.Fields(string(rest))
	const wanted = 14
	if !found || len(words) <= wanted {
		return nil, fmt.Errorf("/proc/%d/stat is not understood: %.80q", pid, data)
	}
	fields := make([]int64, wanted)
	for i, word := range words[1 : wanted+1] { // words[0] is its state
		if fields[i], err = strconv.ParseInt(word, 10, 64); err != nil {
			return nil, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
	}
	return fields, nil
}

// field reads a field in kB from a file of /proc/PID, in bytes. A process that has no memory any more has none.
func field(pid int, file, name string) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kB, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kB << 10, err
		}
	}
	return 0, nil
}

// gone tells of an error from /proc that the process has ended.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}
