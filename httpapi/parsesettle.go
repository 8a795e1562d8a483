package httpapi

import (
	"fmt"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

const (
	maxReceipts    = 4000 // of one call, or one line of a stream
	maxReasonBytes = task.MaxErrorBytes

	// noReason is why an attempt failed whose consumer does not say: without an error it would look delivered.
	noReason = "the consumer gave no reason"
)

// verdicts are the lists of a settle, in the order in which they are carried out and answered.
type verdicts struct {
	queue                      string
	ack, nack, extend, release []settlement
	receipts                   int
	credit                     int // of a stream's line
}

func (v *verdicts) all() []settlement {
	out := make([]settlement, 0, v.receipts)
	for _, list := range [][]settlement{v.ack, v.nack, v.extend, v.release} {
		out = append(out, list...)
	}
	return out
}

// parseSettle reads the body of a settle. A body of the wrong shape is refused as a whole; a receipt or a value that
// is wrong is only its own result's problem.
func parseSettle(data []byte, queue string) ([]settlement, error) {
	s := &scanner{data: data}
	if s.peek() != '{' {
		return nil, s.notObject()
	}
	v := verdicts{queue: queue}
	err := s.settleObject(&v, "ack", "nack", "extend", "release")
	return v.all(), err
}

// settleObject reads the object and what follows it.
func (s *scanner) settleObject(v *verdicts, names ...string) error {
	fields := once{names: names}
	err := s.object(func(name []byte) error {
		member, err := fields.admit(name)
		if err != nil {
			return err
		}
		return s.verdicts(v, member)
	})
	if err != nil {
		return err
	}
	return s.end()
}

// verdicts reads one of the lists.
func (s *scanner) verdicts(v *verdicts, member string) (err error) {
	switch member {
	case "credit":
		var n int64
		n, err = s.whole(member, 1, maxCredit)
		v.credit = int(n)
	case "ack":
		v.ack, err = s.receipts(v, member, func(r receipt) *fsmpb.Command {
			return r.settle(&fsmpb.Settle{Verdict: fsmpb.Verdict_VERDICT_DELIVERED})
		})
	case "release":
		v.release, err = s.receipts(v, member, func(r receipt) *fsmpb.Command {
			return r.settle(&fsmpb.Settle{Verdict: fsmpb.Verdict_VERDICT_RELEASED})
		})
	case "nack":
		v.nack, err = s.entries(v, member, []string{"receipt", "delay", "reason"}, nackCommand)
	case "extend":
		v.extend, err = s.entries(v, member, []string{"receipt", "lease"}, extendCommand)
	}
	return err
}

// count bounds how many receipts come in one go.
func (v *verdicts) count(member string) error {
	if v.receipts++; v.receipts > maxReceipts {
		return &task.FieldError{Field: member, Detail: "has a receipt too many", Limit: fmt.Sprintf("%d in all", maxReceipts)}
	}
	return nil
}

// receipts reads an array of receipts, strings or objects.
func (s *scanner) receipts(v *verdicts, member string, command func(receipt) *fsmpb.Command) ([]settlement, error) {
	var out []settlement
	err := s.array(member, func(i int) error {
		if err := v.count(member); err != nil {
			return err
		}
		text, err := s.receipt(fmt.Sprintf("%s[%d]", member, i))
		if err == nil {
			out = append(out, v.settlement(text, func(r receipt) (*fsmpb.Command, error) { return command(r), nil }))
		}
		return err
	})
	return out, err
}

// receipt reads one that stands alone, or in an object as a nack's does.
func (s *scanner) receipt(at string) (string, error) {
	if s.peek() != '{' {
		return s.text(at)
	}
	e, err := s.entry(at, []string{"receipt"})
	return e["receipt"], err
}

// settlement makes a command of a receipt, or a refusal.
func (v *verdicts) settlement(text string, command func(receipt) (*fsmpb.Command, error)) settlement {
	a := settlement{receipt: text}
	r, err := parseReceipt(text)
	if err != nil {
		a.refused = noSuchLease(err.Error())
		return a
	}
	a.id = r.id
	if err = r.of(v.queue); err == nil {
		a.cmd, err = command(r)
	}
	if err != nil {
		a.refused = problemOf(err)
	}
	return a
}

// entry is an object that has a receipt and says something about it.
type entry map[string]string

// entries reads an array of objects of strings.
func (s *scanner) entries(v *verdicts, member string, names []string,
	command func(receipt, entry) (*fsmpb.Command, error)) ([]settlement, error) {
	var out []settlement
	err := s.array(member, func(i int) error {
		if err := v.count(member); err != nil {
			return err
		}
		e, err := s.entry(fmt.Sprintf("%s[%d]", member, i), names)
		if err == nil {
			out = append(out, v.settlement(e["receipt"], func(r receipt) (*fsmpb.Command, error) { return command(r, e) }))
		}
		return err
	})
	return out, err
}

func (s *scanner) entry(at string, names []string) (entry, error) {
	e := entry{}
	fields := once{prefix: at + ".", names: names}
	err := s.members(at, func(name []byte) error {
		member, err := fields.admit(name)
		if err == nil {
			e[member], err = s.text(at + "." + member)
		}
		return err
	})
	if _, ok := e["receipt"]; err == nil && !ok {
		err = &task.FieldError{Field: at + ".receipt", Detail: "is absent"}
	}
	return e, err
}

func nackCommand(r receipt, e entry) (*fsmpb.Command, error) {
	verdict := &fsmpb.Settle{Verdict: fsmpb.Verdict_VERDICT_RETRY, Error: orElse(e["reason"], noReason)}
	if n := len(verdict.Error); n > maxReasonBytes {
		return nil, &task.FieldError{Field: "reason", Detail: fmt.Sprintf("is %d bytes", n),
			Limit: fmt.Sprintf("%d bytes", maxReasonBytes)}
	}
	if text, ok := e["delay"]; ok {
		delay, err := boundedSpan("delay", text, 0, task.MaxDelay, spanLimit)
		if err != nil {
			return nil, err
		}
		ms := delay.Milliseconds()
		verdict.DelayMs = &ms
	}
	return r.settle(verdict), nil
}

func extendCommand(r receipt, e entry) (*fsmpb.Command, error) {
	text, ok := e["lease"]
	if !ok {
		return nil, &task.FieldError{Field: "lease", Detail: "is absent", Limit: leaseRule}
	}
	lease, err := boundedSpan("lease", text, task.MinLease, task.MaxLease, leaseRule)
	if err != nil {
		return nil, err
	}
	return r.extend(int64(lease / time.Millisecond)), nil
}
