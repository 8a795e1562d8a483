package control

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// tokenKeys is the keys of tokens of a cluster, and its clock.
type tokenKeys struct {
	t     *testing.T
	state *clusterpb.ControlState
	keys  *seal.Keys
	clock time.Time
}

func (w *tokenKeys) ring() *seal.Ring { return w.keys.Ring() }

// settle takes the leader's steps until none is left, and returns their number.
func (w *tokenKeys) settle() (steps int) {
	w.t.Helper()
	for ; steps < 10; steps++ {
		next, err := look{state: w.state, keys: w.keys, clock: w.clock, algorithms: []string{task.EdDSA}}.jwtKeys()
		assert.NoError(w.t, err)
		if next.what == "" {
			return steps
		}
		w.state = mustApply(w.t, w.state, next.entry)
	}
	w.t.Fatal("no end")
	return 0
}

func (w *tokenKeys) rotate(overlap time.Duration) {
	w.t.Helper()
	set, err := jwtDraft{w.state, w.ring(), w.clock}.newer([]string{task.EdDSA}, overlap)
	assert.NoError(w.t, err)
	w.state = mustApply(w.t, w.state, stepOf("", set).entry)
}

// shown describes the keys: the number of its making, when a key signs and when it ends, from the beginning on.
func (w *tokenKeys) shown(known *[]string) string {
	text := ""
	for _, k := range w.state.JwtKeys {
		if !slices.Contains(*known, k.Id) {
			*known = append(*known, k.Id)
		}
		since := func(ms int64) time.Duration { return time.UnixMilli(max(ms, began.UnixMilli())).Sub(began) }
		text += fmt.Sprintf("[%d from %v to %v]", slices.Index(*known, k.Id), since(k.SignsMs), since(k.EndsMs))
	}
	return text
}

var began = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// A new key is published before it signs, and an older one until all of its tokens have ended.
func TestLifeOfTokenKeys(t *testing.T) {
	w := &tokenKeys{t: t, state: &clusterpb.ControlState{}, clock: began}
	var known []string
	at := func(clock time.Duration, want string) {
		t.Helper()
		w.clock = began.Add(clock)
		w.settle()
		assert.Equal(t, w.shown(&known), want, "at %v", clock)
	}
	at(0, "[0 from 0s to 0s]")
	w.rotate(time.Hour)
	at(0, "[0 from 0s to 1h0m0s][1 from 30m0s to 0s]")
	at(time.Hour-time.Millisecond, "[0 from 0s to 1h0m0s][1 from 30m0s to 0s]")
	at(time.Hour, "[1 from 30m0s to 0s]")
	w.rotate(2 * time.Hour)
	w.rotate(15 * time.Minute) // ends the earlier overlap
	at(time.Hour, "[1 from 30m0s to 1h15m0s][2 from 2h0m0s to 1h15m0s][3 from 1h7m30s to 0s]")
	w.rotate(0) // they have leaked
	at(time.Hour, "[4 from 0s to 0s]")
	at(time.Hour+jwtAge-time.Millisecond, "[4 from 0s to 0s]")
	at(time.Hour+jwtAge, "[4 from 0s to 2162h0m0s][5 from 2161h30m0s to 0s]")
	at(3*time.Hour+jwtAge, "[5 from 2161h30m0s to 0s]")
	assert.Equal(t, w.settle(), 0, "steps without a need")
}

// The leader adds keys for an algorithm that has none, and leaves the others as they are.
func TestKeysForAnotherAlgorithm(t *testing.T) {
	w := &tokenKeys{t: t, state: &clusterpb.ControlState{}, clock: began}
	w.settle()
	first := w.state.JwtKeys[0]
	next, err := look{state: w.state, clock: w.clock, algorithms: []string{task.EdDSA, task.RS256}}.jwtKeys()
	assert.NoError(t, err)
	w.state = mustApply(t, w.state, next.entry)
	assert.Equal(t, len(w.state.JwtKeys), 2)
	assert.Equal(t, w.state.JwtKeys[0].Id, first.Id)
	assert.Equal(t, w.state.JwtKeys[0].EndsMs, 0)
	assert.Equal(t, w.state.JwtKeys[1].Algorithm, task.RS256)
	assert.Equal(t, w.state.JwtKeys[1].SignsMs, 0, "there is no other that could sign")
}

// Keys are sealed as the policies are. A leader that cannot seal makes none.
func TestTokenKeysAreSealed(t *testing.T) {
	w := &tokenKeys{t: t, state: &clusterpb.ControlState{}, clock: began}
	w.settle()
	id := w.state.JwtKeys[0].Id
	for _, fills := range [][]byte{{1}, {2, 1}} {
		w.keys = clusterKeys(t, fills...)
		w.state = sealAll(t, w.state, w.keys)
		assert.Equal(t, w.settle(), 1, "steps")
		k := w.state.JwtKeys[0]
		if k.Id != id || k.Sealed.Key != w.keys.Key() || len(k.Private) > 0 {
			t.Errorf("%v", k)
		}
		w.rotate(0)
		assert.Equal(t, w.state.JwtKeys[0].Sealed.Key, w.keys.Key(), "a key of a rotation")
		id = w.state.JwtKeys[0].Id
	}
	w.keys = nil
	w.clock = w.clock.Add(2 * jwtAge)
	assert.Equal(t, w.settle(), 0, "steps of a leader without the cluster key")
	set, err := jwtDraft{w.state, nil, w.clock}.newer([]string{task.EdDSA}, 0)
	assert.NoError(t, err)
	_, err = Apply(w.state, stepOf("", set).entry)
	assert.ErrorIs(t, err, ErrRefused)

	w.keys = clusterKeys(t, 3) // which seals from now on, and does not open the present key
	w.state = sealAll(t, w.state, w.keys)
	w.settle()
	last := lastOf(w.state.JwtKeys, task.EdDSA)
	assert.Equal(t, last.Sealed.Key, w.keys.Key(), "the key that comes with time")
	assert.Equal(t, w.state.JwtKeys[0].Id, id, "the other stays for those who open it")
}

// An entry that is older than the newest key changes nothing.
func TestLateTokenKeys(t *testing.T) {
	w := &tokenKeys{t: t, state: &clusterpb.ControlState{}, clock: began}
	w.settle()
	late, err := jwtDraft{w.state, nil, w.clock}.newer([]string{task.EdDSA}, 0)
	assert.NoError(t, err)
	w.rotate(time.Hour)
	next, changed, err := apply(w.state, marshal(t, stepOf("", late).entry))
	assert.NoError(t, err)
	assert.Equal(t, changed.Conflict, true)
	assert.Equal(t, next == w.state, true, "the state is the same")
	for _, k := range changed.JwtKeys {
		assert.Equal(t, len(k.Private), 0, "bytes of a private key in the answer")
	}
	assert.Equal(t, len(changed.JwtKeys), 2)
}

// A rotation that a caller asks for is checked before keys are made.
func TestAskedTokenKeys(t *testing.T) {
	s := &clusterpb.ControlState{}
	r := &reconciler{group: &Group{machine: newMachine(), cfg: Config{
		Algorithms: []string{task.EdDSA}, Clock: func() time.Time { return began },
	}}}
	ask := func(overlap time.Duration) (*clusterpb.SetJwtKeys, error) {
		r.group.machine.state = s
		c := &clusterpb.ControlChange{Entry: stepOf("", &clusterpb.SetJwtKeys{OverlapMs: overlap.Milliseconds()}).entry}
		_, err := prepareSetJwtKeys(r, c)
		return c.Entry.GetSetJwtKeys(), err
	}
	for range maxJWTKeys {
		set, err := ask(time.Hour)
		assert.NoError(t, err)
		s = mustApply(t, s, stepOf("", set).entry)
	}
	var impossible *task.ImpossibleError
	if _, err := ask(time.Hour); !errors.As(err, &impossible) {
		t.Errorf("a key too many: %v", err)
	}
	set, err := ask(0)
	assert.NoError(t, err)
	assert.Equal(t, len(set.Keys), 1, "keys after a leak")
	for _, overlap := range []time.Duration{-time.Second, time.Second, 15*time.Minute - time.Millisecond, 31 * 24 * time.Hour} {
		var field *task.FieldError
		if _, err := ask(overlap); !errors.As(err, &field) || field.Field != "overlap" {
			t.Errorf("%v: %v", overlap, err)
		}
	}
	s = &clusterpb.ControlState{ClusterKey: "k"}
	_, err = ask(0)
	assert.ErrorIs(t, err, task.ErrNotProposed)
}
