package logstore

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup/journal"
)

// TestLogAgainstModel runs Raft's operations on a log in any order, with restarts in between: 15 random histories of some
// 30 operations, and 200 in its long form.
func TestLogAgainstModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	shared, err := journal.Open(journal.Config{
		Dir: filepath.Join(dir, "journal"), Root: dir, SegmentSize: 64 << 10, Fatal: noFatal(t),
	})
	assert.NoError(t, err)
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		m := &model{t: t, terms: map[uint64]uint64{}, cfg: Config{
			Dir:         filepath.Join(dir, fmt.Sprint(runs)),
			Kind:        rapid.SampledFrom([]Kind{WAL, BoltDB}).Draw(rt, "kind"),
			segmentSize: 1024,
			Fatal:       noFatal(t), WriteTimeout: time.Hour,
		}}
		if rapid.Bool().Draw(rt, "journal") {
			m.cfg.Journal = shared
		}
		m.open()
		defer func() { mustClose(t, m.stores) }()
		rt.Repeat(map[string]func(*rapid.T){
			"":         m.check,
			"append":   m.append,
			"cut head": m.cutHead,
			"cut tail": m.cutTail,
			"restart":  m.restart,
		})
		m.restart(rt)
		m.check(rt)
	})
	assert.Equal(t, shared.Close(), nil)
}

// model holds the expected log: first to last, 0 and 0 if empty, and each entry's term.
type model struct {
	t           *testing.T
	cfg         Config
	stores      *Stores
	first, last uint64
	term        uint64
	terms       map[uint64]uint64
}

func (m *model) open() {
	s, err := Open(m.cfg)
	assert.NoError(m.t, err)
	m.stores = s
}

// check reads the bounds and a few entries in between.
func (m *model) check(rt *rapid.T) {
	first, last, err := bounds(m.stores.Log())
	if err != nil || first != m.first || last != m.last {
		rt.Fatalf("log holds %d to %d, error %v; want %d to %d", first, last, err, m.first, m.last)
	}
	for i := m.first; m.last > 0 && i <= m.last; i += 1 + (m.last-m.first)/9 {
		mustRead(m.t, m.stores.Log(), i, m.terms[i])
	}
	if m.last > 0 {
		mustRead(m.t, m.stores.Log(), m.last, m.terms[m.last])
	}
	mustMiss(m.t, m.stores.Log(), m.first-min(m.first, 1))
	mustMiss(m.t, m.stores.Log(), m.last+1)
}

func (m *model) append(rt *rapid.T) {
	n := rapid.Uint64Range(1, 30).Draw(rt, "n")
	from := m.last + 1
	if m.last == 0 {
		from = rapid.Uint64Range(1, 1000).Draw(rt, "from")
		m.first = from
	}
	mustStore(m.t, m.stores, entries(from, from+n-1, m.term))
	for i := range n {
		m.terms[from+i] = m.term
	}
	m.last = from + n - 1
}

func (m *model) cutHead(rt *rapid.T) {
	if m.last == 0 {
		return
	}
	to := rapid.Uint64Range(m.first, m.last).Draw(rt, "to")
	m.remove(rt, m.first, to)
	m.keep(to+1, m.last)
}

func (m *model) cutTail(rt *rapid.T) {
	if m.last == 0 {
		return
	}
	from := rapid.Uint64Range(m.first, m.last).Draw(rt, "from")
	m.remove(rt, from, m.last)
	m.term++
	m.keep(m.first, from-1)
}

func (m *model) remove(rt *rapid.T, from, to uint64) {
	assert.NoError(rt, m.stores.Log().DeleteRange(from, to))
}

func (m *model) keep(first, last uint64) {
	m.first, m.last = first, last
	if first > last {
		m.first, m.last = 0, 0
	}
}

// restart opens the log with a snapshot that the log continues, or with any snapshot if the log is empty.
func (m *model) restart(*rapid.T) {
	mustClose(m.t, m.stores)
	m.cfg.SnapshotIndex = max(m.first, 2) - 1
	m.open()
	if m.last < m.cfg.SnapshotIndex {
		m.keep(1, 0)
	}
}
