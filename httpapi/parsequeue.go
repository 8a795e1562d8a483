package httpapi

import (
	"fmt"
	"strconv"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// policyDraft is a queue's policy as a request words it. Its secrets are not in the policy yet: some may only be named.
type policyDraft struct {
	policy  *fsmpb.QueuePolicy
	secrets []secret
}

// named tells whether a secret stands there only by its fingerprint.
func (d *policyDraft) named() bool {
	for _, s := range d.secrets {
		if s.fingerprint != "" {
			return true
		}
	}
	return false
}

// queuePolicy reads the policy of the queue that the path names.
func (p *parser) queuePolicy(data []byte, queue string) (*policyDraft, error) {
	s := &scanner{data: data}
	if s.peek() != '{' {
		return nil, s.notObject()
	}
	d := &policyDraft{policy: &fsmpb.QueuePolicy{Namespace: task.DefaultNamespace, Queue: queue}}
	err := s.policy(func(member string) error { return p.policyMember(s, d, member) })
	if err == nil {
		err = p.checkPolicy(d.policy)
	}
	return d, err
}

// policy reads an object with the members that a policy has, and calls member before the value of each.
func (s *scanner) policy(member func(name string) error) error {
	fields := once{names: []string{"queue", "target", "retry", "max_in_flight", "max_per_second", "paused", "keep_done",
		"keep_dead", "batch_max", "signing"}}
	err := s.object(func(name []byte) error {
		if n := string(name); n == "counts" || n == "version" {
			return &task.FieldError{Field: n, Detail: "is set by the service and cannot be sent"}
		}
		known, err := fields.admit(name)
		if err != nil {
			return err
		}
		return member(known)
	})
	if err == nil {
		err = s.end()
	}
	return err
}

func (p *parser) policyMember(s *scanner, d *policyDraft, member string) (err error) {
	policy := d.policy
	switch member {
	case "queue":
		err = s.pathQueue(policy.Queue)
	case "target":
		policy.Target, err = p.target(s)
	case "retry":
		policy.Retry, err = retry(s)
	case "max_in_flight":
		policy.MaxInFlight, err = s.count32(member, task.MaxInFlight)
	case "max_per_second":
		policy.MaxPerSecond, err = s.rate(member)
	case "paused":
		policy.Paused, err = s.boolean(member)
	case "keep_done":
		policy.KeepDoneMs, err = s.positive(member, task.MaxKeep, "100 years")
	case "keep_dead":
		policy.KeepDeadMs, err = s.positive(member, task.MaxKeep, "100 years")
	case "batch_max":
		policy.BatchMax, err = s.count32(member, task.MaxBatch)
	case "signing":
		d.secrets, err = s.signing()
	}
	return err
}

func (p *parser) checkPolicy(policy *fsmpb.QueuePolicy) error {
	if err := task.CheckQueue(policy); err != nil {
		return err
	}
	if t := policy.Target; t != nil {
		return checked(p.checkURL(t.Url))
	}
	return nil
}

func (s *scanner) pathQueue(queue string) error {
	text, err := s.text("queue")
	if err == nil && text != queue {
		err = &task.FieldError{Field: "queue", Detail: "is not the queue in the path"}
	}
	return err
}

func (s *scanner) count32(name string, most int64) (uint32, error) {
	n, err := s.whole(name, 1, most)
	return uint32(n), err
}

// rate reads a number a second, which need not be whole.
func (s *scanner) rate(name string) (float64, error) {
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		return 0, s.wrongType(name, "a number")
	}
	raw, err := s.value()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n < minPerSecond || n > task.MaxPerSecond {
		limit := fmt.Sprintf("%v to %d", minPerSecond, task.MaxPerSecond)
		return 0, &task.FieldError{Field: name, Detail: "is " + clip(string(raw)), Limit: limit}
	}
	return n, nil
}

const minPerSecond = 0.001 // one in a quarter of an hour

func (s *scanner) boolean(name string) (bool, error) {
	if c := s.peek(); c != 't' && c != 'f' {
		return false, s.wrongType(name, "true or false")
	}
	raw, err := s.value()
	return string(raw) == "true", err
}

// signing reads the secrets, the newest first.
func (s *scanner) signing() (secrets []secret, err error) {
	fields := once{prefix: "signing.", names: []string{"secrets"}}
	err = s.members("signing", func(name []byte) error {
		if _, err := fields.admit(name); err != nil {
			return err
		}
		return s.array("signing.secrets", func(i int) error {
			if i == task.MaxSecrets {
				return &task.FieldError{Field: "signing.secrets", Detail: "has more than two", Limit: "1 or 2"}
			}
			one, err := s.secret(fmt.Sprintf("signing.secrets[%d]", i))
			secrets = append(secrets, one)
			return err
		})
	})
	if err == nil && len(secrets) == 0 {
		err = &task.FieldError{Field: "signing.secrets", Detail: "is absent or empty", Limit: "1 or 2"}
	}
	return secrets, err
}

// array reads an array and calls element before each value, which it must consume.
func (s *scanner) array(name string, element func(i int) error) error {
	if s.peek() != '[' {
		return s.wrongType(name, "an array")
	}
	s.pos++
	if s.peek() == ']' {
		s.pos++
		return nil
	}
	for i := 0; ; i++ {
		if err := element(i); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case ']':
			s.pos++
			return nil
		default:
			return s.fail("a comma or the closing bracket is missing")
		}
	}
}
