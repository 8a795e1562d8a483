package seal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// HasPlain reports whether a policy has secrets in the clear.
func HasPlain(p *fsmpb.QueuePolicy) bool {
	return len(p.GetSecrets()) > 0 || slices.ContainsFunc(p.GetTarget().GetHeaders(), isPlain)
}

func isPlain(h *fsmpb.Header) bool { return task.IsCredential(h.Name) && h.Value != task.Masked }

// IsCurrent reports whether nothing of a policy has to be sealed again: it has no secrets in the clear, and none under
// another key than the first.
func (r *Ring) IsCurrent(p *fsmpb.QueuePolicy) bool {
	return !HasPlain(p) && (p.GetSealed() == nil || p.Sealed.Key == r.First())
}

// Seal returns the policy with its secrets sealed under the first key. A policy that is sealed under an older key is
// opened first. present is the queue's present policy, or nil: its sealed value is kept if the secrets are the same.
// Seal writes to neither policy. Without keys it returns the policy as it is.
func (r *Ring) Seal(p, present *fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error) {
	if r == nil || r.IsCurrent(p) {
		return p, nil
	}
	opened, err := r.Open(p)
	if err != nil {
		return nil, err
	}
	sealed := proto.CloneOf(opened)
	secrets := take(sealed)
	if old := present.GetSealed(); old != nil && old.Key == r.First() {
		if was, err := r.unseal(present); err == nil && proto.Equal(was, secrets) {
			sealed.Sealed = old
			return sealed, nil
		}
	}
	sealed.Sealed, err = r.seal(sealed, secrets)
	return sealed, err
}

// take takes the secrets out of a policy.
func take(p *fsmpb.QueuePolicy) *fsmpb.PolicySecrets {
	secrets := &fsmpb.PolicySecrets{Secrets: p.Secrets}
	p.Secrets = nil
	for _, h := range p.GetTarget().GetHeaders() {
		if isPlain(h) {
			secrets.Headers = append(secrets.Headers, &fsmpb.Header{Name: h.Name, Value: h.Value})
			h.Value = task.Masked
		}
	}
	return secrets
}

func (r *Ring) seal(p *fsmpb.QueuePolicy, secrets *fsmpb.PolicySecrets) (*fsmpb.Sealed, error) {
	plain, err := proto.Marshal(secrets)
	if err != nil {
		return nil, err
	}
	sealed := r.SealText(plain, bindingOf(p))
	for _, secret := range secrets.Secrets {
		sealed.Digests = append(sealed.Digests, task.SecretDigest(secret))
	}
	return sealed, nil
}

// Open returns the policy with its secrets in the clear. It returns p itself if p is not sealed, and never writes to p.
// The error is a *MissingKeyError if the ring lacks the key.
func (r *Ring) Open(p *fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error) {
	if p.GetSealed() == nil {
		return p, nil
	}
	secrets, err := r.unseal(p)
	if err != nil {
		return nil, err
	}
	opened := proto.CloneOf(p)
	opened.Sealed = nil
	if len(opened.Secrets) == 0 {
		opened.Secrets = secrets.Secrets
	}
	opened.Target = task.KeepMasked(opened.Target, &fsmpb.Target{Headers: secrets.Headers})
	return opened, nil
}

func (r *Ring) unseal(p *fsmpb.QueuePolicy) (*fsmpb.PolicySecrets, error) {
	damaged := fmt.Errorf("%w: the sealed secrets of queue %s are damaged, or belong to another queue",
		task.ErrNotProposed, p.Queue)
	plain, err := r.OpenText(p.Sealed, bindingOf(p))
	switch {
	case errors.Is(err, ErrDamaged):
		return nil, damaged
	case err != nil:
		return nil, err
	}
	secrets := new(fsmpb.PolicySecrets)
	if err := proto.Unmarshal(plain, secrets); err != nil {
		return nil, errors.Join(damaged, errors.New("they are of a newer build"))
	}
	return secrets, nil
}

// bindingOf returns the additional data of a policy's secrets, which binds them to the queue.
func bindingOf(p *fsmpb.QueuePolicy) []byte {
	b := []byte("secrets of a queue policy\n")
	for _, name := range []string{p.Namespace, p.Queue} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(name)))
		b = append(b, name...)
	}
	return b
}
