package httpapi

import (
	"fmt"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
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
	r, seen := contract.NewReader(data), contract.Set(0)
	d := &policyDraft{policy: &fsmpb.QueuePolicy{Namespace: task.DefaultNamespace, Queue: queue}}
	err := r.Root(&contract.PolicyObject, &seen, func(f contract.Field) error { return policyMember(r, d, f) })
	if err == nil {
		err = p.checkPolicy(d.policy)
	}
	return d, err
}

func policyMember(r *contract.Reader, d *policyDraft, f contract.Field) (err error) {
	policy := d.policy
	switch name := f.String(); f {
	case contract.Queue:
		err = pathQueue(r, policy.Queue)
	case contract.Target:
		policy.Target, err = target(r)
	case contract.Retry:
		policy.Retry, err = retry(r)
	case contract.MaxInFlight:
		policy.MaxInFlight, err = count32(r, name, task.MaxInFlight)
	case contract.MaxPerSecond:
		policy.MaxPerSecond, err = r.Number(name, minPerSecond, task.MaxPerSecond)
	case contract.Paused:
		policy.Paused, err = r.Bool(name)
	case contract.KeepDone:
		policy.KeepDoneMs, err = positive(r, name, task.MaxKeep, "100 years")
	case contract.KeepDead:
		policy.KeepDeadMs, err = positive(r, name, task.MaxKeep, "100 years")
	case contract.BatchMax:
		policy.BatchMax, err = count32(r, name, task.MaxBatch)
	case contract.Signing:
		d.secrets, err = signing(r)
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

func pathQueue(r *contract.Reader, queue string) error {
	text, err := r.Text("queue")
	if err == nil && text != queue {
		err = &task.FieldError{Field: "queue", Detail: "is not the queue in the path"}
	}
	return err
}

func count32(r *contract.Reader, name string, most int64) (uint32, error) {
	n, err := r.Whole(name, 1, most)
	return uint32(n), err
}

const minPerSecond = 0.001 // one in a quarter of an hour

// signing reads the secrets, the newest first.
func signing(r *contract.Reader) (secrets []secret, err error) {
	const field = "signing.secrets"
	seen := contract.Set(0)
	err = r.Object("signing", &contract.SigningObject, &seen, func(contract.Field) error {
		return r.Array(field, func(i int) error {
			if i == task.MaxSecrets {
				return &task.FieldError{Field: field, Detail: "has more than two", Limit: "1 or 2"}
			}
			one, err := readSecret(r, fmt.Sprintf("%s[%d]", field, i))
			secrets = append(secrets, one)
			return err
		})
	})
	if err == nil && len(secrets) == 0 {
		err = &task.FieldError{Field: field, Detail: "is absent or empty", Limit: "1 or 2"}
	}
	return secrets, err
}
