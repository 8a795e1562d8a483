package fsm

import (
	"bytes"
)

// failer is a *testing.T, *testing.B, *testing.F or *rapid.T.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// restored returns a machine restored from a snapshot of m.
func restored(t failer, m *Machine) *Machine {
	t.Helper()
	return restoredFrom(t, m.Snapshot(), m.applier.shard)
}

func restoredFrom(t failer, snapshot *Snapshot, shard uint32) *Machine {
	t.Helper()
	defer snapshot.Release()
	var buf bytes.Buffer
	if _, err := snapshot.WriteTo(&buf); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	fresh := New(shard)
	if err := fresh.Restore(&buf); err != nil {
		t.Fatalf("restore: %v", err)
	}
	return fresh
}

// audit checks the invariants of the whole state.
func audit(t failer, m *Machine) {
	t.Helper()
	if err := m.store.Audit(); err != nil {
		t.Errorf("%v", err)
	}
}

// message is any message of package fsmpb.
type message interface{ MarshalVT() ([]byte, error) }

func mustMarshal(m message) []byte {
	b, err := m.MarshalVT()
	if err != nil {
		panic(err)
	}
	return b
}

// restoredInto replaces the state of a machine by a snapshot of its own.
func restoredInto(t failer, m *Machine) {
	t.Helper()
	snapshot := m.Snapshot()
	defer snapshot.Release()
	var buf bytes.Buffer
	if _, err := snapshot.WriteTo(&buf); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	if err := m.Restore(&buf); err != nil {
		t.Fatalf("restore: %v", err)
	}
}
