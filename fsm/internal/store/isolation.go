package store

import (
	"cmp"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// isolation holds the isolated paths: those whose tasks have lanes of their own. The lane of an isolated path without a
// group is always open.
type isolation struct {
	receivers map[task.Lane]map[string]*Lane // by the lane of the receiver's other paths, then by path
	paths     int                            // of all receivers
}

func (i *isolation) has(receiver task.Lane, path string) bool {
	return i.receivers[receiver][path] != nil
}

// countGroup adds n, 1 or -1, to the open lanes of an isolated path's groups.
func (i *isolation) countGroup(name task.Lane, n int) {
	if name.Path != "" && name.Group != "" {
		i.receivers[name.Destined()][name.Path].groups += n
	}
}

// Isolate gives the tasks of a path a lane of their own. Tasks in the receiver's lane stay there. It changes nothing if
// there are too many isolated paths.
func (ls *Lanes) Isolate(name task.Lane) {
	name = cloned(name)
	i, receiver := &ls.isolation, name.Destined()
	paths := i.receivers[receiver]
	if name.Destination == "" || name.Path == "" || paths[name.Path] != nil ||
		len(paths) >= task.MaxIsolatedPaths || i.paths >= task.MaxIsolated {
		return
	}
	if paths == nil {
		paths = map[string]*Lane{}
		i.receivers[receiver] = paths
	}
	l := ls.open(name)
	l.isolated, paths[name.Path] = true, l
	i.paths++
	ls.touch(l)
}

// EndIsolation ends the isolation of a path without tasks.
func (ls *Lanes) EndIsolation(name task.Lane) {
	i, receiver := &ls.isolation, name.Destined()
	l := i.receivers[receiver][name.Path]
	if l == nil || l.hasTasks() || l.groups > 0 {
		return
	}
	l.isolated = false
	ls.touch(l)
	delete(i.receivers[receiver], name.Path)
	if len(i.receivers[receiver]) == 0 {
		delete(i.receivers, receiver)
	}
	i.paths--
}

// IsIsolated reports whether the path of a ready task is isolated, and the task waits in the lane of the other paths.
func (ls *Lanes) IsIsolated(t Task) bool {
	if ls.isolation.paths == 0 || t.read().isolated {
		return false
	}
	name, _ := ls.nameOf(t.record())
	return name.Path != ""
}

// messages returns the lanes of all isolated paths, sorted.
func (i *isolation) messages() (lanes []*fsmpb.Lane) {
	for _, paths := range i.receivers {
		for _, l := range paths {
			lanes = append(lanes, &fsmpb.Lane{
				Namespace: l.Namespace, Queue: l.Queue, Destination: l.Destination, Path: l.Path,
			})
		}
	}
	slices.SortFunc(lanes, func(a, b *fsmpb.Lane) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Queue, b.Queue),
			cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Path, b.Path))
	})
	return lanes
}

// cloned returns a name that does not point into the entry that brought it.
func cloned(l task.Lane) task.Lane {
	return task.Lane{
		Namespace: strings.Clone(l.Namespace), Queue: strings.Clone(l.Queue),
		Destination: strings.Clone(l.Destination), Path: strings.Clone(l.Path), Group: strings.Clone(l.Group),
	}
}
