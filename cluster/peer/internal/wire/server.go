package wire

import (
	"errors"
	"net"

	"github.com/hashicorp/raft"
)

// maxAnswers is how many bytes of answers may wait. The answers to a peer that reads them stay far below.
const maxAnswers = 1 << 20

var (
	errDeaf    = errors.New("the peer does not read its answers")
	errNotHere = errors.New("the group is not on this node")
)

// server is the receiving end of a stream.
type server struct {
	outbox
	mux    *Mux
	header Header
}

func newServer(m *Mux, conn net.Conn, h Header) *server {
	s := &server{mux: m, header: h}
	s.outbox.init(conn, m.metrics)
	s.outbox.patient = m.cfg.Timeout
	s.outbox.broken = s.fail
	return s
}

// serve reads requests until the stream ends.
func (s *server) serve() error {
	if err := Take(s.conn, s.patient); err != nil {
		return err
	}
	r := newRequestReader(s.conn, s.header)
	for {
		req, err := r.next()
		if err != nil {
			return err
		}
		g := s.mux.group(req.group, s.header.Cluster)
		if g == nil {
			if err := r.skip(req); err != nil {
				return err
			}
			s.answer(req.number, nil, errNotHere)
			continue
		}
		if err := readEntries(r.Reader, req); err != nil {
			return err
		}
		if !g.take(ticket{server: s, number: req.number, bytes: req.data}, req.rpc) {
			s.answer(req.number, nil, errNotHere)
		}
	}
}

// answer sends an answer, or err if it is not nil.
func (s *server) answer(number uint64, resp *raft.AppendEntriesResponse, err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return // the stream has ended
	}
	if s.waiting.bytes() > maxAnswers {
		s.mu.Unlock()
		s.fail(errDeaf)
		return
	}
	appendAnswer(s.waiting, number, s.mux.cfg.Self, resp, err)
	s.leave()
}

func (s *server) fail(err error) {
	s.mu.Lock()
	first := s.end(err)
	s.mu.Unlock()
	if first {
		_ = s.conn.Close() // the stream has ended
	}
}
