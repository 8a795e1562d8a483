package lossyfs

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// The model knows which changes must survive a power loss and which may. It does not know how the disk decides. It
// keeps every content that a file has had since its last sync. For names it allows every subset of the unsynced steps
// in which each step is possible without the others.

// modelNode is a file or a folder. The file's permissions carry its number, so that a test finds it again on the disk.
type modelNode struct {
	number   int
	folder   bool
	versions [][]byte // of a file: the content at its last sync, and all contents since then
}

func (n *modelNode) now() []byte { return n.versions[len(n.versions)-1] }

// allows returns an error if a power loss cannot leave the content got: each sector must be one that the file has had.
func (n *modelNode) allows(got []byte) error {
	least, most := len(n.versions[0]), 0
	for _, v := range n.versions {
		least, most = min(least, len(v)), max(most, len(v))
	}
	if len(got) < least || len(got) > most {
		return fmt.Errorf("%d bytes are left, but the file had %d to %d", len(got), least, most)
	}
	for at := 0; at < len(got); at += sectorSize {
		end := min(at+sectorSize, len(got))
		if !slices.ContainsFunc(n.versions, func(v []byte) bool { return string(padded(v, at, end)) == string(got[at:end]) }) {
			return fmt.Errorf("bytes %d to %d are in none of the file's %d versions", at, end, len(n.versions))
		}
	}
	return nil
}

// padded returns a part of v, with zeros behind its end.
func padded(v []byte, at, end int) []byte {
	part := make([]byte, end-at)
	if at < len(v) {
		copy(part, v[at:])
	}
	return part
}

// place is a name in a folder.
type place struct {
	folder int // number of the folder
	name   string
}

type modelTree map[place]*modelNode

// modelStep removes the old names and adds the new ones.
type modelStep struct {
	old, new modelTree
	must     bool // a sync has made the step durable
}

// possible makes the step if it can be made on this tree, and reports whether it did.
func (t modelTree) possible(s *modelStep) bool {
	for at, n := range s.old {
		if t[at] != n {
			return false
		}
	}
	next := maps.Clone(t)
	for at := range s.old {
		delete(next, at)
	}
	for at, n := range s.new {
		if next[at] != nil {
			return false
		}
		next[at] = n
	}
	if !next.sound() {
		return false
	}
	clear(t)
	maps.Copy(t, next)
	return true
}

// sound reports whether every non-empty folder hangs below the top and no node has two names.
func (t modelTree) sound() bool {
	above := map[int]int{}
	for at, n := range t {
		if _, twice := above[n.number]; twice {
			return false
		}
		above[n.number] = at.folder
	}
	for at := range t {
		steps := 0
		for folder := at.folder; folder != 0; steps++ {
			next, ok := above[folder]
			if !ok || steps > len(t) {
				return false
			}
			folder = next
		}
	}
	return true
}

// model is the tree as processes see it, and its durable part.
type model struct {
	durable modelTree
	steps   []*modelStep
	now     modelTree
	root    *modelNode
	given   int // numbers given to nodes so far
}

func newModel() *model {
	return &model{durable: modelTree{}, now: modelTree{}, root: &modelNode{folder: true}}
}

func (m *model) step(old, new modelTree) {
	s := &modelStep{old: old, new: new}
	if !m.now.possible(s) {
		panic("the test makes a step that is none")
	}
	m.steps = append(m.steps, s)
}

// sync syncs a file or folder. It makes durable the steps in that folder, the steps that gave it its name, and the
// steps that those rest on: every step without which they would not be possible.
func (m *model) sync(n *modelNode) {
	for _, s := range m.steps {
		for at := range s.old {
			s.must = s.must || at.folder == n.number && n.folder
		}
		for at, other := range s.new {
			s.must = s.must || at.folder == n.number && n.folder || other == n
		}
	}
	if !n.folder {
		n.versions = [][]byte{n.now()}
	}
}

// paths returns the files and folders that processes see, by path.
func (t modelTree) paths(root *modelNode) map[string]*modelNode {
	all := map[string]*modelNode{".": root}
	for grown := true; grown; {
		grown = false
		for at, n := range t {
			for dir, folder := range all {
				if p := path.Join(dir, at.name); folder.folder && folder.number == at.folder && all[p] == nil {
					all[p], grown = n, true
				}
			}
		}
	}
	return all
}

// found is a file or folder on the disk after a power loss.
type found struct {
	number  int
	folder  bool
	content []byte
}

// judge returns an error if a power loss cannot leave the found files, and takes them for durable otherwise.
func (m *model) judge(got map[string]found) error {
	outcome, err := m.outcome(got)
	if err != nil {
		return err
	}
	paths := outcome.paths(m.root)
	for p, n := range paths {
		if n.folder {
			continue
		}
		if err := n.allows(got[p].content); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		n.versions = [][]byte{got[p].content}
	}
	m.durable, m.now, m.steps = outcome, maps.Clone(outcome), nil
	return nil
}

// outcome finds a set of steps that explains the found names.
func (m *model) outcome(got map[string]found) (modelTree, error) {
	want := summary(got, func(f found) (int, bool) { return f.number, f.folder })
	for subset := range 1 << len(m.steps) {
		t := maps.Clone(m.durable)
		fits := true
		for i, s := range m.steps {
			if subset&(1<<i) != 0 {
				fits = fits && t.possible(s)
			} else {
				fits = fits && !s.must
			}
		}
		if fits && summary(t.paths(m.root), func(n *modelNode) (int, bool) { return n.number, n.folder }) == want {
			return t, nil
		}
	}
	return nil, fmt.Errorf("no steps of %d explain the names that are left: %s", len(m.steps), want)
}

func summary[V any](all map[string]V, describe func(V) (int, bool)) string {
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(all)) {
		number, folder := describe(all[p])
		fmt.Fprintf(&b, "%s=%d/%v ", p, number, folder)
	}
	return b.String()
}
