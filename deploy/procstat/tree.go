package procstat

import (
	"errors"
	"io/fs"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// Tree is the resource usage of a process and its descendants. A descendant's memory counts proportionally where it is
// shared (PSS), so that a server that forks does not count its memory many times.
type Tree struct {
	Memory    int64         // bytes
	Processor time.Duration // since their start; includes ended descendants that their parent waited for
}

// OfTrees returns the usage of each process together with its descendants.
func OfTrees(pids ...int) ([]Tree, error) {
	if len(pids) == 0 {
		return nil, nil
	}
	children, err := childrenByParent()
	if err != nil {
		return nil, err
	}
	all := make([]Tree, len(pids))
	for i, pid := range pids {
		if all[i], err = treeOf(pid, children); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func treeOf(pid int, children map[int][]procfs.Proc) (Tree, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return Tree{}, err
	}
	status, err := p.NewStatus()
	if err != nil {
		return Tree{}, err
	}
	processor, err := withChildren(p)
	sum := Tree{Memory: int64(status.VmRSS), Processor: processor}
	for _, descendant := range descendants(children, pid) {
		if err == nil {
			err = sum.add(descendant)
		}
	}
	return sum, err
}

// add adds the usage of a descendant. It adds nothing if the descendant has ended.
func (t *Tree) add(p procfs.Proc) error {
	memory, err := p.ProcSMapsRollup()
	if err == nil {
		var processor time.Duration
		processor, err = withChildren(p)
		t.Memory += int64(memory.Pss)
		t.Processor += processor
	}
	if hasEnded(err) {
		return nil
	}
	return err
}

// withChildren returns the processor time of a process and of its children that have ended and were waited for.
func withChildren(p procfs.Proc) (time.Duration, error) {
	stat, err := p.Stat()
	return ticks(int(stat.UTime+stat.STime) + stat.CUTime + stat.CSTime), err
}

func descendants(children map[int][]procfs.Proc, pid int) []procfs.Proc {
	var all []procfs.Proc
	for _, c := range children[pid] {
		all = append(append(all, c), descendants(children, c.PID)...)
	}
	return all
}

func childrenByParent() (map[int][]procfs.Proc, error) {
	processes, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	children := make(map[int][]procfs.Proc)
	for _, p := range processes {
		stat, err := p.Stat()
		if hasEnded(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		children[stat.PPID] = append(children[stat.PPID], p)
	}
	return children, nil
}

// hasEnded reports whether an error from /proc says that the process has ended.
func hasEnded(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }
