package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/peer/internal/wire"
	"github.com/belfryhq/belfry/internal/assert"
)

type (
	asking    = Stream[clusterpb.ForwardRequest, clusterpb.ForwardReply, *clusterpb.ForwardRequest, *clusterpb.ForwardReply]
	answering = Stream[clusterpb.ForwardReply, clusterpb.ForwardRequest, *clusterpb.ForwardReply, *clusterpb.ForwardRequest]
)

// served is the answering end of a stream until the test ends the stream.
type served struct {
	*answering
	result chan error // of its service; capacity 1
	done   chan struct{}
}

// finish ends the service of the stream with an error or nil.
func (s *served) finish(err error) {
	s.result <- err
	<-s.done
}

// open begins a stream of calls between two endpoints, and returns its two ends.
func open(t *testing.T, from, to *Endpoint) (*asking, *served) {
	t.Helper()
	taken := make(chan *served)
	go func() {
		in, err := to.AcceptStream()
		if err != nil || in.Traffic != Calls || in.From != from.cfg.NodeID || in.Cluster != cluster {
			t.Errorf("accepted %+v, %v", in, err)
		}
		here := &served{result: make(chan error, 1), done: make(chan struct{})}
		defer close(here.done)
		_ = ServeStream(t.Context(), in, func(s *answering) error { // its error is the one of finish
			here.answering = s
			taken <- here
			return <-here.result
		})
	}()
	s, err := OpenStream[clusterpb.ForwardRequest, clusterpb.ForwardReply](
		t.Context(), from, Calls, to.cfg.NodeID, cluster)
	assert.NoError(t, err)
	return s, <-taken
}

// inBubble runs a test with a stream between two nodes in simulated time.
func inBubble(t *testing.T, test func(t *testing.T, asks *asking, answers *served)) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubbleBook()
		asks, answers := open(t, listen(t, b, 1), listen(t, b, 2))
		test(t, asks, answers)
		asks.cancel(errEnded)
		close(answers.result)
		synctest.Wait()
	})
}

func callOf(number uint64, bytes int) *clusterpb.ForwardRequest {
	return &clusterpb.ForwardRequest{Calls: []*clusterpb.Call{{Number: number, Request: make([]byte, bytes)}}}
}

func replyOf(number uint64) *clusterpb.ForwardReply {
	return &clusterpb.ForwardReply{Replies: []*clusterpb.CallReply{{Number: number}}}
}

func TestMessagesOfAllSizesArriveInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, asks *asking, answers *served) {
		sizes := []int{0, 1, keptBuffer - 10, keptBuffer + 10, 3 << 20}
		go func() {
			for i, bytes := range sizes {
				assert.Equal(t, asks.Send(callOf(uint64(i), bytes)), nil)
			}
		}()
		for i, bytes := range sizes {
			got, err := answers.Recv()
			if err != nil || got.Calls[0].Number != uint64(i) || len(got.Calls[0].Request) != bytes {
				t.Fatalf("message %d: %v", i, err)
			}
			assert.NoError(t, answers.Send(replyOf(uint64(i))))
			if back, err := asks.Recv(); err != nil || back.Replies[0].Number != uint64(i) {
				t.Fatalf("answer %d: %v", i, err)
			}
		}
	})
}

// TestManySendersShareAStream checks that no message mixes with another one.
func TestManySendersShareAStream(t *testing.T) {
	inBubble(t, func(t *testing.T, asks *asking, answers *served) {
		const senders, each = 8, 50
		var wg sync.WaitGroup
		for n := range senders {
			wg.Go(func() {
				for i := range each {
					assert.Equal(t, asks.Send(callOf(uint64(n*each+i), 10*n)), nil)
				}
			})
		}
		var numbers []uint64
		for range senders * each {
			got, err := answers.Recv()
			assert.NoError(t, err)
			numbers = append(numbers, got.Calls[0].Number)
		}
		wg.Wait()
		slices.Sort(numbers)
		if numbers = slices.Compact(numbers); len(numbers) != senders*each {
			t.Errorf("%d of %d messages arrived", len(numbers), senders*each)
		}
	})
}

// TestEnds checks how the asking end learns of each way in which the answering end ends a stream, after all messages.
func TestEnds(t *testing.T) {
	refused := (*RefusedError)(nil)
	for _, c := range []struct {
		name string
		with error // of the service
		is   func(error) bool
	}{
		{"in order", nil, func(err error) bool { return errors.Is(err, io.EOF) }},
		{"refused", &RefusedError{"removed"}, func(err error) bool {
			return errors.As(err, &refused) && refused.Reason == "removed"
		}},
		{"at once", errSilent, func(err error) bool { return !errors.Is(err, io.EOF) && !errors.As(err, &refused) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, asks *asking, answers *served) {
				assert.NoError(t, answers.Send(replyOf(1)))
				ended := make(chan struct{})
				go func() { defer close(ended); answers.finish(c.with) }()
				_, err := asks.Recv()
				assert.NoError(t, err, "the answer before the end")
				if _, err := asks.Recv(); err == nil || !c.is(err) {
					t.Errorf("the end is %v", err)
				}
				began := time.Now()
				<-ended
				if waited := time.Since(began); waited > 0 {
					t.Errorf("the end waited for %v, though the other node has hung up", waited)
				}
				for err := error(nil); !errors.Is(err, io.EOF); { // the system may take a message or two more
					if err = asks.Send(callOf(1, 0)); err != nil && !errors.Is(err, io.EOF) {
						t.Errorf("a message after the end: %v", err)
					}
				}
			})
		})
	}
}

// TestEndWaitsForTheOtherEndOnlyASecond checks the end of a stream whose other end reads nothing.
func TestEndWaitsForTheOtherEndOnlyASecond(t *testing.T) {
	inBubble(t, func(t *testing.T, asks *asking, answers *served) {
		began := time.Now()
		answers.finish(nil)
		assert.Equal(t, time.Since(began), endWithin, "the end took")
		_, err := asks.Recv()
		assert.ErrorIs(t, err, io.EOF, "the end")
	})
}

func TestQuietStreamStaysOpen(t *testing.T) {
	inBubble(t, func(t *testing.T, asks *asking, answers *served) {
		got := make(chan error, 2)
		go func() { _, err := answers.Recv(); got <- err }()
		go func() { _, err := asks.Recv(); got <- err }()
		time.Sleep(time.Hour)
		assert.Equal(t, errors.Join(asks.Send(callOf(1, 0)), answers.Send(replyOf(1)), <-got, <-got), nil)
	})
}

// TestSilentNodeEndsTheStream checks that a node that keeps its connection and says nothing is noticed.
func TestSilentNodeEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		s := newStream[clusterpb.ForwardRequest, clusterpb.ForwardReply](t.Context(), here)
		began := time.Now()
		_, err := s.Recv()
		assert.ErrorIs(t, err, errSilent, "the end")
		assert.Equal(t, time.Since(began), silentBeats*beatEvery, "noticed after")
		synctest.Wait()
	})
}

// TestLargeMessageMayArriveSlowly checks that a node is not silent while a message of it arrives.
func TestLargeMessageMayArriveSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		s := newStream[clusterpb.ForwardReply, clusterpb.ForwardRequest](t.Context(), here)
		defer s.cancel(errEnded)
		sent := callOf(7, 2000)
		body, err := sent.MarshalVT()
		assert.NoError(t, err)
		go func() {
			for part := range slices.Chunk(append(appendHead(nil, messageFrame, len(body)), body...), 100) {
				time.Sleep(beatEvery)
				_, err := there.Write(part)
				assert.Equal(t, err, nil)
			}
		}()
		if got, err := s.Recv(); err != nil || got.Calls[0].Number != 7 {
			t.Errorf("%v, %v", got, err)
		}
	})
}

func TestStreamEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		ctx, cancel := context.WithCancelCause(t.Context())
		s := newStream[clusterpb.ForwardRequest, clusterpb.ForwardReply](ctx, here)
		why := errors.New("closed by its owner")
		cancel(why)
		_, err := s.Recv()
		assert.ErrorIs(t, err, why, "the end")
		_, err = there.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF, "the connection is still open")
	})
}

func TestMessageOverTheLimitIsNotSent(t *testing.T) {
	inBubble(t, func(t *testing.T, asks *asking, answers *served) {
		assert.ErrorIs(t, asks.Send(callOf(1, maxMessage)), errMessage, "a message over the limit")
		go func() {
			assert.Equal(t, asks.Send(callOf(2, 0)), nil)
		}()
		if got, err := answers.Recv(); err != nil || got.Calls[0].Number != 2 {
			t.Errorf("the next message: %v, %v", got, err)
		}
	})
}

func TestMalformedFramesEndTheStream(t *testing.T) {
	head := func(kind byte, n uint32) string { return string(binary.BigEndian.AppendUint32([]byte{kind}, n)) }
	for said, want := range map[string]error{
		head(messageFrame, maxMessage+1):    errMessage,
		head(endFrame+1, 0):                 errFrame,
		head(messageFrame, 9) + "half":      io.ErrUnexpectedEOF,
		head(messageFrame, 1) + "\xff":      io.ErrUnexpectedEOF, // of the message
		head(beatFrame, 0) + "\x00":         io.ErrUnexpectedEOF,
		head(messageFrame, maxMessage) + "": errHungUp,
		"":                                  errHungUp,
	} {
		t.Run(fmt.Sprintf("%.20q", said), func(t *testing.T) {
			here, there := net.Pipe()
			s := newStream[clusterpb.ForwardReply, clusterpb.ForwardRequest](t.Context(), here)
			go func() { _, _ = io.WriteString(there, said); _ = there.Close() }()
			m, err := s.Recv()
			assert.ErrorIs(t, err, want, "%v", m)
		})
	}
}

// TestStreamsOfStrangers checks that a stream for another node or cluster, or from a removed node, is refused.
func TestStreamsOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubbleBook()
		one, two := listen(t, b, 1), listen(t, b, 2)
		transport(t, two, 1, cluster)
		_, err := OpenStream[clusterpb.ForwardRequest, clusterpb.ForwardReply](
			t.Context(), one, Calls, nodeID(2), "another-cluster-")
		assert.ErrorIs(t, err, wire.WrongNode, "a stream of another cluster")
		b.set(nodeID(3), two.Addr())
		if _, err := OpenStream[clusterpb.ForwardRequest, clusterpb.ForwardReply](
			t.Context(), one, Calls, nodeID(3), cluster); err == nil || !strings.Contains(err.Error(), nodeID(2)) {
			t.Errorf("a stream for another node: %v", err)
		}
	})
}

// TestOpenGivesUpWithinASecond checks that a node that takes no stream holds up its callers for no longer.
func TestOpenGivesUpWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubbleBook()
		one := listen(t, b, 1)
		listen(t, b, 2) // accepts no streams
		began := time.Now()
		_, err := OpenStream[clusterpb.ForwardRequest, clusterpb.ForwardReply](t.Context(), one, Calls, nodeID(2), cluster)
		if took := time.Since(began); err == nil || took != openWithin {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
