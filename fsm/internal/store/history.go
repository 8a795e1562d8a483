package store

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// historyKept is the largest number of ended attempts that a task remembers.
const historyKept = 5

// maxNodeBytes is the largest number of bytes of a node's id that a task's history keeps.
const maxNodeBytes = 64

// history is a task's record of its attempts, decoded from its blob: the last error, and the last few attempts that
// ended, oldest first. The last error is usually that of the last attempt, and its text is then kept once. The
// encoding of the blob lives and dies with the process, like that of cold.
type history struct {
	lastError string
	past      []ended
}

// ended is one attempt that has ended: see fsmpb.Past.
type ended struct {
	attempt    uint32
	fence      uint64
	start, end int64
	node, err  string
}

// historyOwnError is set, in the byte with the number of attempts, if the last error is not that of the last attempt.
const historyOwnError = 0x80

// appendTo appends the encoding of h to b: the number of attempts and the mark, the last error if marked, the
// attempts.
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

// readHistory decodes a blob, and appends its attempts to past. A nil blob is an empty history.
func readHistory(b []byte, past []ended) history {
	h := history{past: past}
	if len(b) == 0 {
		return h
	}
	own, n, in := openHistory(b)
	for range n {
		e, node, err := in.ended()
		e.node, e.err = string(node), string(err)
		h.past = append(h.past, e)
	}
	if h.lastError = h.errorOfLast(); hasOwnError(b) {
		h.lastError = string(own)
	}
	return h
}

// readLast decodes only the last attempt of a blob. ok is false if the blob has none.
func readLast(b []byte) (last ended, ok bool) {
	if len(b) == 0 {
		return ended{}, false
	}
	_, n, in := openHistory(b)
	var node, err []byte
	for range n {
		last, node, err = in.ended()
	}
	last.node, last.err = string(node), string(err)
	return last, n > 0
}

// ended decodes one attempt without its texts, and the texts in the memory of the blob.
func (r *coldReader) ended() (e ended, node, err []byte) {
	e = ended{attempt: uint32(r.uvarint()), fence: r.uvarint(), start: r.varint(), end: r.varint()}
	return e, r.sized(), r.sized()
}

// openHistory decodes the head of a blob: the last error, unless it is that of the last attempt, and the number of
// attempts that follow.
func openHistory(b []byte) (own []byte, n int, in coldReader) {
	in = coldReader{b[1:]}
	if hasOwnError(b) {
		own = in.sized()
	}
	return own, int(b[0] &^ historyOwnError), in
}

func hasOwnError(b []byte) bool { return b[0]&historyOwnError != 0 }

// add appends an attempt, and drops the oldest one if there are more than historyKept.
func (h *history) add(e ended) {
	e.node, e.err = cutText(e.node, maxNodeBytes), cutText(e.err, task.MaxErrorBytes)
	h.past = append(h.past, e)
	h.past = h.past[max(0, len(h.past)-historyKept):]
	h.lastError = e.err
}

// cutText returns the text cut to at most limit bytes, as valid UTF-8.
func cutText(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// Ended describes an attempt that ends now.
type Ended struct {
	Fence     uint64
	StartedMs int64  // 0: not known
	Node      string // the node that made the attempt; empty: a consumer made it
	Error     string // empty: a success
}

// EndAttempt adds an attempt to the task's history. The attempt's error becomes the task's last error. A success may
// come under an earlier fence than the current one.
func (e Edit) EndAttempt(attempt Ended) {
	p, m := e.write(), &e.s.mem
	h, number := readHistory(m.blob(p.history), m.past[:0]), p.attempts
	earlier := func(past ended) bool { return past.fence == attempt.Fence }
	if i := slices.IndexFunc(h.past, earlier); i >= 0 {
		number = h.past[i].attempt // the attempt had been given up, and succeeded after all
		h.past = slices.Delete(h.past, i, i+1)
	}
	h.add(ended{number, attempt.Fence, attempt.StartedMs, e.s.NowMs, attempt.Node, attempt.Error})
	m.putHistory(p, &h)
	clear(m.past[:])
}

// SetLastError records why the task ended without an attempt, or clears the last error if text is empty.
func (e Edit) SetLastError(text string) {
	p, h := e.write(), e.history()
	h.lastError = cutText(text, task.MaxErrorBytes)
	e.s.mem.putHistory(p, &h)
}

// addTo copies the history into a task message.
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

// historyOf returns the history of a task message from a snapshot.
func historyOf(t *fsmpb.Task) *history {
	h := &history{}
	for _, p := range t.History {
		h.add(ended{p.Attempt, p.Fence, p.StartedAtMs, p.EndedAtMs, p.Node, p.Error})
	}
	h.lastError = cutText(t.LastError, task.MaxErrorBytes)
	return h
}
