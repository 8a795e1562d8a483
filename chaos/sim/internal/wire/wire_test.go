package wire

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
)

const (
	group   = 1
	timeout = time.Second
	delay   = 10 * time.Millisecond
)

// answerer handles requests as a Raft node does, one after the other.
type answerer struct {
	mu  sync.Mutex
	got []uint64 // terms of the requests
	at  []time.Duration
}

// inBubble runs a test with two hosts in a bubble. Host b answers every request.
func inBubble(t *testing.T, do func(t *testing.T, n *Network, a, b *Host, got *answerer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := New(1, Quality{Delay: delay})
		a, b := n.Up("a"), n.Up("b")
		defer a.Down()
		defer b.Down()
		got := &answerer{}
		go got.answer(b)
		do(t, n, a, b, got)
	})
}

func (r *answerer) answer(h *Host) {
	began := time.Now()
	requests := h.Transport(group, timeout).Consumer()
	for {
		select {
		case rpc := <-requests:
			req := rpc.Command.(*raft.AppendEntriesRequest)
			r.mu.Lock()
			r.got, r.at = append(r.got, req.Term), append(r.at, time.Since(began))
			r.mu.Unlock()
			rpc.Respond(&raft.AppendEntriesResponse{Term: req.Term, Success: true}, nil)
		case <-h.Life().Done():
			return
		}
	}
}

func (r *answerer) terms() []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]uint64(nil), r.got...)
}

func beat(h *Host, to string, term uint64) (raft.AppendEntriesResponse, error) {
	var resp raft.AppendEntriesResponse
	err := h.Transport(group, timeout).AppendEntries("", raft.ServerAddress(to), &raft.AppendEntriesRequest{Term: term}, &resp)
	return resp, err
}

func TestThereAndBack(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Network, a, _ *Host, _ *answerer) {
		began := time.Now()
		resp, err := beat(a, "b", 7)
		if err != nil || resp.Term != 7 || time.Since(began) != 2*delay {
			t.Errorf("%+v, %v after %v", resp, err, time.Since(began))
		}
		if _, err := beat(a, "c", 7); !errors.Is(err, ErrRefused) {
			t.Errorf("call of an unknown host: %v", err)
		}
	})
}

// TestCutOneWay checks that a request into a cut never arrives, and that an answer into a cut leaves its request
// handled.
func TestCutOneWay(t *testing.T) {
	for _, there := range []bool{true, false} {
		inBubble(t, func(t *testing.T, n *Network, a, _ *Host, got *answerer) {
			if there {
				n.Set("a", "b", Quality{Cut: true})
			} else {
				n.Set("b", "a", Quality{Cut: true})
			}
			began := time.Now()
			_, err := beat(a, "b", 7)
			if !errors.Is(err, ErrTimeout) || time.Since(began) != timeout {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			if seen := len(got.terms()) == 1; seen == there {
				t.Errorf("there %v: seen %v", there, seen)
			}
			n.Heal()
			if _, err := beat(a, "b", 8); err != nil {
				t.Errorf("healed: %v", err)
			}
		})
	}
}

func TestLateAndTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Network, a, _ *Host, got *answerer) {
		n.Set("a", "b", Quality{Late: 1, Lateness: time.Minute})
		_, err := beat(a, "b", 1)
		assert.ErrorIs(t, err, ErrTimeout, "late")
		assert.Equal(t, len(got.terms()), 0, "the late request came in time")
		n.Set("a", "b", Quality{Duplicate: 1, Lateness: time.Minute})
		if _, err := beat(a, "b", 2); err != nil {
			t.Errorf("twice: %v", err)
		}
		time.Sleep(2 * time.Minute) // of the bubble's clock
		var ones, twos int
		for _, term := range got.terms() {
			switch term {
			case 1:
				ones++
			case 2:
				twos++
			}
		}
		if ones != 1 || twos != 2 {
			t.Errorf("arrived %v", got.terms())
		}
	})
}

// TestDeathOfTheOther checks that a message to a process never reaches a later process of the same name.
func TestDeathOfTheOther(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Network, a, b *Host, _ *answerer) {
		n.Set("a", "b", Quality{Delay: 100 * time.Millisecond})
		failed := make(chan error, 1)
		go func() {
			_, err := beat(a, "b", 1)
			failed <- err
		}()
		time.Sleep(50 * time.Millisecond) // of the bubble's clock
		b.Down()
		heir := &answerer{}
		next := n.Up("b")
		defer next.Down()
		go heir.answer(next)
		assert.ErrorIs(t, <-failed, ErrReset)
		if _, err := beat(a, "b", 2); err != nil || len(heir.terms()) != 1 {
			t.Errorf("%v, %v", err, heir.terms())
		}
	})
}

// TestVoid checks that a dead process neither sends nor receives.
func TestVoid(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Network, a, _ *Host, got *answerer) {
		a.Down()
		_, err := beat(a, "b", 1)
		assert.ErrorIs(t, err, ErrDown)
		_, err = a.Transport(group, timeout).AppendEntriesPipeline("", "b")
		assert.ErrorIs(t, err, ErrDown, "pipeline")
		assert.Equal(t, len(got.terms()), 0, "a request of a dead process arrived")
	})
}

func TestFrozen(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Network, a, b *Host, got *answerer) {
		b.Freeze()
		_, err := beat(a, "b", 1)
		assert.ErrorIs(t, err, ErrTimeout)
		b.Thaw()
		synctest.Wait()
		assert.Equal(t, len(got.terms()), 1, "a request to a frozen process did not arrive when it woke")
		a.Freeze()
		time.AfterFunc(time.Minute, a.Thaw)
		began := time.Now()
		if _, err := beat(a, "b", 2); err != nil || time.Since(began) != time.Minute+2*delay {
			t.Errorf("a frozen sender: %v after %v", err, time.Since(began))
		}
	})
}

func TestPipelineKeepsOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Network, a, _ *Host, got *answerer) {
		n.Set("a", "b", Quality{Delay: delay, Jitter: 50 * time.Millisecond})
		p, err := a.Transport(group, timeout).AppendEntriesPipeline("", "b")
		assert.NoError(t, err)
		defer p.Close()
		const many = 20
		go func() {
			for term := range uint64(many) {
				_, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: term}, &raft.AppendEntriesResponse{})
				assert.Equal(t, err, nil)
			}
		}()
		for term := range uint64(many) {
			f := <-p.Consumer()
			if f.Error() != nil || f.Response().Term != term || f.Request().Term != term || f.Start().IsZero() {
				t.Errorf("%d: %v, %+v", term, f.Error(), f.Response())
			}
		}
		for i, term := range got.terms() {
			if term != uint64(i) {
				t.Fatalf("arrived as %v", got.terms())
			}
		}
	})
}

// TestPipelineBreaks checks that a lost request breaks the pipeline, with an error that Raft takes for a failure.
func TestPipelineBreaks(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Network, a, _ *Host, _ *answerer) {
		p, err := a.Transport(group, timeout).AppendEntriesPipeline("", "b")
		assert.NoError(t, err)
		n.Set("a", "b", Quality{Cut: true})
		if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 1}, &raft.AppendEntriesResponse{}); err != nil {
			t.Fatal(err)
		}
		if f := <-p.Consumer(); !errors.Is(f.Error(), ErrTimeout) || f.Response().Success {
			t.Errorf("%v, %+v", f.Error(), f.Response())
		}
		synctest.Wait()
		if _, err := p.AppendEntries(&raft.AppendEntriesRequest{}, &raft.AppendEntriesResponse{}); !errors.Is(err, raft.ErrPipelineShutdown) {
			t.Errorf("after: %v", err)
		}
	})
}

func TestSnapshotIsCarriedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1, Quality{Delay: delay})
		a, b := n.Up("a"), n.Up("b")
		defer a.Down()
		defer b.Down()
		go func() {
			rpc := <-b.Transport(group, timeout).Consumer()
			content := make([]byte, 64)
			read, err := rpc.Reader.Read(content)
			rpc.Respond(&raft.InstallSnapshotResponse{Term: uint64(read), Success: string(content[:read]) == "state"}, err)
		}()
		var resp raft.InstallSnapshotResponse
		err := a.Transport(group, timeout).InstallSnapshot("", "b", &raft.InstallSnapshotRequest{}, &resp, strings.NewReader("state"))
		if err != nil || !resp.Success {
			t.Errorf("%+v, %v", resp, err)
		}
	})
}

func TestCall(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Network, a, b *Host, _ *answerer) {
		five := func(context.Context, *Host) int { return 5 }
		if got, err := Call(t.Context(), a, "b", five); got != 5 || err != nil {
			t.Errorf("%d, %v", got, err)
		}
		if _, err := Call(t.Context(), a, "c", five); !errors.Is(err, ErrNotSent) {
			t.Errorf("call of an unknown host: %v", err)
		}
		n.Set("b", "a", Quality{Cut: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done := false
		if _, err := Call(ctx, a, "b", func(context.Context, *Host) int { done = true; return 5 }); !errors.Is(err, ErrLost) || !done {
			t.Errorf("no answer: %v, done %v", err, done)
		}
		n.Heal()
		_, err := Call(t.Context(), a, "b", func(ctx context.Context, at *Host) int {
			at.Down()
			<-ctx.Done() // ends with the process
			return 5
		})
		assert.ErrorIs(t, err, ErrLost, "died")
		if _, err := Call(t.Context(), b, "a", five); !errors.Is(err, ErrNotSent) {
			t.Errorf("from the dead: %v", err)
		}
	})
}

func TestStream(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Network, a, b *Host, _ *answerer) {
		serve := func(_ *Host, s *Stream[int, int]) {
			for {
				msg, err := s.Recv()
				if err != nil || s.Send(2*msg) != nil {
					return
				}
			}
		}
		s, err := Dial(t.Context(), a, "b", timeout, serve)
		assert.NoError(t, err)
		for i := range 10 {
			assert.NoError(t, s.Send(i))
		}
		for i := range 10 {
			if got, err := s.Recv(); got != 2*i || err != nil {
				t.Errorf("%d: %d, %v", i, got, err)
			}
		}
		n.Set("a", "b", Quality{Cut: true})
		assert.NoError(t, s.Send(1))
		if _, err := s.Recv(); !errors.Is(err, errBroken) {
			t.Errorf("cut: %v", err)
		}
		n.Heal()
		again, err := Dial(t.Context(), a, "b", timeout, serve)
		assert.NoError(t, err)
		b.Down()
		if _, err := again.Recv(); !errors.Is(err, ErrReset) {
			t.Errorf("died: %v", err)
		}
	})
}
