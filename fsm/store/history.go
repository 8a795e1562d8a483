package store

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// historyKept is how many of its ended attempts a task remembers.
const historyKept = 5

// maxNodeBytes is how much of a node's id a task's history keeps.
const maxNodeBytes = 64

// history is a task's memory of its attempts, as its blob holds it: the last error, and the last few attempts that
// ended, oldest first. Most of the time the last error is the last attempt's: the text is kept once then. Its encoding
// lives and dies with the process, like that of cold.
type history struct {
	lastError string
	past      []ended
}

// ended is one attempt that has ended. See fsmpb.Past.
type ended struct {
	attempt    uint32
	fence      uint64
	start, end int64
	node, err  string
}

// historyOwnError marks, beside the number of attempts, a last error that is not the last attempt's.
const historyOwnError = 0x80

// appendTo writes h: the number of attempts and the mark, the last error if it is marked, the attempts.
func (h *history) appendTo(b []byte) []byte {
	own := h.lastError != h.errorOfLast()
	switch {
	case own:
		b = appendSized(append(b, byte(len(h.past))|historyOwnError), h.lastError)
	case len(h.past) > 0:
		b = append(b, byte(len(h.past)))
	}
	for i := range h.past {
		e := &h.past[i]
		b = binary.AppendUvarint(b, uint64(e.attempt))
		b = binary.AppendUvarint(b, e.fence)
		b = binary.AppendVarint(b, e.start)
		b = binary.AppendVarint(b, e.end)
		b = appendSized(appendSized(b, e.node), e.err)
	}
	return b
}

func (h *history) errorOfLast() string {
	if n := len(h.past); n > 0 {
		return h.past[n-1].err
	}
	return ""
}

// readHistory reads a blob, nil for none.
func readHistory(b []byte) history {
	var h history
	if len(b) == 0 {
		return h
	}
	own, n, in := openHistory(b)
	for range n {
		h.past = append(h.past, ended{
			attempt: uint32(in.uvarint()),
			fence:   in.uvarint(),
			start:   in.varint(),
			end:     in.varint(),
			node:    string(in.sized()),
			err:     string(in.sized()),
		})
	}
	if h.lastError = h.errorOfLast(); hasOwnError(b) {
		h.lastError = string(own)
	}
	return h
}

// openHistory reads the head of a blob: the last error that is not an attempt's, if there is one, and how many attempts
// follow.
func openHistory(b []byte) (own []byte, n int, in coldReader) {
	in = coldReader{b[1:]}
	if hasOwnError(b) {
		own = in.sized()
	}
	return own, int(b[0] &^ historyOwnError), in
}

func hasOwnError(b []byte) bool { return b[0]&historyOwnError != 0 }

// add appends an attempt; the oldest one over historyKept is forgotten.
func (h *history) add(e ended) {
	e.node, e.err = cutText(e.node, maxNodeBytes), cutText(e.err, task.MaxErrorBytes)
	h.past = append(h.past, e)
	h.past = h.past[max(0, len(h.past)-historyKept):]
	h.lastError = e.err
}

// cutText returns as much of a text as is kept.
func cutText(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// hasPast reports whether an attempt of the current occurrence has ended.
func (s *Store) hasPast(p *progress) bool {
	b := s.blob(p.history)
	return len(b) > 0 && b[0]&^historyOwnError != 0
}

// Ended is an attempt that ends now.
type Ended struct {
	Fence     uint64
	StartedMs int64  // 0: not known
	Node      string // the node that made it; empty: a consumer's
	Error     string // empty: a success
}

// EndAttempt adds an attempt to the task's history; its error becomes the last one. A success may come under an earlier
// fence than the current one.
func (e Edit) EndAttempt(attempt Ended) {
	p := e.write()
	h := readHistory(e.s.blob(p.history))
	number := p.attempts
	earlier := func(past ended) bool { return past.fence == attempt.Fence }
	if i := slices.IndexFunc(h.past, earlier); i >= 0 {
		number = h.past[i].attempt // it had been given up, and succeeded after all
		h.past = slices.Delete(h.past, i, i+1)
	}
	h.add(ended{number, attempt.Fence, attempt.StartedMs, e.s.NowMs, attempt.Node, attempt.Error})
	e.s.putHistory(p, &h)
}

// SetLastError keeps why the task ended without an attempt's doing, or, with an empty text, that it goes on.
func (e Edit) SetLastError(text string) {
	p := e.write()
	h := readHistory(e.s.blob(p.history))
	h.lastError = cutText(text, task.MaxErrorBytes)
	e.s.putHistory(p, &h)
}

func (s *Store) putHistory(p *progress, h *history) {
	s.blobs.Free(p.history)
	s.scratch = h.appendTo(s.scratch[:0])
	p.history = s.blobs.Put(s.scratch)
}

// addTo writes the history into a task.
func (h *history) addTo(t *fsmpb.Task) {
	t.LastError = h.lastError
	for _, e := range h.past {
		t.History = append(t.History, &fsmpb.Past{
			Attempt:     e.attempt,
			Fence:       e.fence,
			StartedAtMs: e.start,
			EndedAtMs:   e.end,
			Node:        e.node,
			Error:       e.err,
		})
	}
}

// historyOf is the reverse, for a task from a snapshot.
func historyOf(t *fsmpb.Task) *history {
	h := &history{}
	for _, p := range t.History {
		h.add(ended{p.Attempt, p.Fence, p.StartedAtMs, p.EndedAtMs, p.Node, p.Error})
	}
	h.lastError = cutText(t.LastError, task.MaxErrorBytes)
	return h
}
