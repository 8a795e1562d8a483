package httpapi

import "time"

// arrival is when a call came in, that a delay counts from.
type arrival struct {
	at   time.Time
	sure bool // the node knows the time
}

// check refuses to count from a time that may be wrong by anything: such a task could be due at once.
func (a arrival) check() error {
	if a.sure {
		return nil
	}
	return &problem{kind: notReady, detail: "this node's clock has not been compared with the others' yet: it cannot " +
		"count from now", committed: "no", retryAfter: 1}
}

// arrived is the arrival of a call that comes in now.
func (s *Server) arrived() arrival {
	now, sure := s.cfg.Now()
	return arrival{now, sure}
}
