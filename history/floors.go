package history

import (
	"maps"
	"slices"

	"github.com/belfryhq/belfry/history/historypb"
)

// floors tells up to which places the events of a shard are gone.
type floors struct {
	all        *historypb.TimedPosition            // of all namespaces; nil: none is gone
	namespaces map[string]*historypb.TimedPosition // each after all
}

func floorsOf(m *historypb.Mark) floors {
	f := floors{all: m.Floor, namespaces: make(map[string]*historypb.TimedPosition, len(m.Namespaces))}
	for _, n := range m.Namespaces {
		f.namespaces[n.Namespace] = n.Position
	}
	return f
}

func (f floors) mark(synced uint64) *historypb.Mark {
	m := &historypb.Mark{Floor: f.all, Synced: synced}
	for _, namespace := range slices.Sorted(maps.Keys(f.namespaces)) {
		m.Namespaces = append(m.Namespaces, &historypb.Floor{Namespace: namespace, Position: f.namespaces[namespace]})
	}
	return m
}

func (f floors) clone() floors { return floors{f.all, maps.Clone(f.namespaces)} }

// floorOf returns the position up to which the events of a namespace are gone; nil: none is gone.
func (f floors) floorOf(namespace string) *historypb.TimedPosition {
	if p := f.namespaces[namespace]; p != nil {
		return p
	}
	return f.all
}

// raise moves the floor of one namespace up.
func (f floors) raise(namespace string, to *historypb.TimedPosition) {
	if to.Position().After(f.floorOf(namespace).Position()) {
		f.namespaces[namespace] = to
	}
}

// raiseAll moves the floor of all namespaces up.
func (f *floors) raiseAll(to *historypb.TimedPosition) {
	f.all = to
	maps.DeleteFunc(f.namespaces, func(_ string, p *historypb.TimedPosition) bool {
		return !p.Position().After(to.Position())
	})
}
