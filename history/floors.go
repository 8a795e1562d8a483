package history

import (
	"maps"
	"slices"

	"github.com/belfryhq/belfry/history/historypb"
)

// floors tells up to which places the events of a shard are gone.
type floors struct {
	all        *historypb.Place            // of all namespaces; nil: none is gone
	namespaces map[string]*historypb.Place // each after all
}

func floorsOf(m *historypb.Mark) floors {
	f := floors{all: m.Floor, namespaces: make(map[string]*historypb.Place, len(m.Namespaces))}
	for _, n := range m.Namespaces {
		f.namespaces[n.Namespace] = n.Place
	}
	return f
}

func (f floors) mark(synced uint64) *historypb.Mark {
	m := &historypb.Mark{Floor: f.all, Synced: synced}
	for _, namespace := range slices.Sorted(maps.Keys(f.namespaces)) {
		m.Namespaces = append(m.Namespaces, &historypb.Floor{Namespace: namespace, Place: f.namespaces[namespace]})
	}
	return m
}

func (f floors) clone() floors { return floors{f.all, maps.Clone(f.namespaces)} }

// of returns the place up to which the events of a namespace are gone; nil: none is gone.
func (f floors) of(namespace string) *historypb.Place {
	if p := f.namespaces[namespace]; p != nil {
		return p
	}
	return f.all
}

// raise moves the floor of one namespace up.
func (f floors) raise(namespace string, to *historypb.Place) {
	if to.Position().After(f.of(namespace).Position()) {
		f.namespaces[namespace] = to
	}
}

// raiseAll moves the floor of all namespaces up.
func (f *floors) raiseAll(to *historypb.Place) {
	f.all = to
	maps.DeleteFunc(f.namespaces, func(_ string, p *historypb.Place) bool { return !p.Position().After(to.Position()) })
}
