package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// policyDraft is a queue's policy as a request gives it. Its secrets are not in the policy yet, since some may be given
// by fingerprint.
type policyDraft struct {
	parser  *parser
	policy  *fsmpb.QueuePolicy
	secrets []secret
	merged  bool // into the stored policy: a null restores a default
}

// named reports whether a secret is given by its fingerprint only.
func (d *policyDraft) named() bool {
	for _, s := range d.secrets {
		if s.fingerprint != "" {
			return true
		}
	}
	return false
}

// queuePolicy reads the policy of the queue in the path.
func (p *parser) queuePolicy(data []byte, queue string) (*policyDraft, error) {
	r, seen := contract.NewReader(data), contract.Set(0)
	d := &policyDraft{parser: p, policy: &fsmpb.QueuePolicy{Namespace: p.namespace, Queue: queue}}
	err := r.Root(&contract.PolicyObject, &seen, func(f contract.Field) error { return d.member(r, f) })
	if err == nil {
		err = p.checkPolicy(d.policy)
	}
	return d, err
}

// member reads the value of any member of a policy.
func (d *policyDraft) member(r *contract.Reader, f contract.Field) error {
	policy, name := d.policy, f.String()
	keep := func() (int64, error) { return positive(r, name, task.MaxKeep, "100 years") }
	switch f {
	case contract.Queue:
		return pathQueue(r, policy.Queue)
	case contract.Target:
		return assign(d, r, &policy.Target, func() (*fsmpb.Target, error) { return d.target(r) })
	case contract.Retry:
		return assign(d, r, &policy.Retry, func() (*fsmpb.Retry, error) { return d.retry(r) })
	case contract.MaxInFlight:
		return assign(d, r, &policy.MaxInFlight, func() (uint32, error) { return count32(r, name, task.MaxInFlight) })
	case contract.MaxPerSecond:
		return assign(d, r, &policy.MaxPerSecond, func() (float64, error) {
			return r.Number(name, minPerSecond, task.MaxPerSecond)
		})
	case contract.Paused:
		return assign(d, r, &policy.Paused, func() (bool, error) { return r.Bool(name) })
	case contract.KeepDone:
		return assign(d, r, &policy.KeepDoneMs, keep)
	case contract.KeepDead:
		return assign(d, r, &policy.KeepDeadMs, keep)
	case contract.BatchMax:
		return assign(d, r, &policy.BatchMax, func() (uint32, error) { return count32(r, name, task.MaxBatch) })
	case contract.Window:
		return assign(d, r, &policy.Window, func() (*fsmpb.Window, error) { return d.parser.window(r) })
	case contract.GroupInFlight:
		return assign(d, r, &policy.GroupInFlight, func() (uint32, error) { return count32(r, name, task.MaxInFlight) })
	case contract.FIFO:
		return assign(d, r, &policy.Fifo, func() (bool, error) { return r.Bool(name) })
	case contract.Fair:
		return assign(d, r, &policy.Fair, func() (bool, error) { return r.Bool(name) })
	case contract.GroupWeights:
		return assign(d, r, &policy.GroupWeights, func() ([]*fsmpb.GroupWeight, error) { return d.weights(r) })
	case contract.Signing:
		return assign(d, r, &policy.Secrets, func() ([][]byte, error) {
			var err error
			d.secrets, err = signing(r)
			return policy.Secrets, err // the present ones, until keepSecrets resolves fingerprints
		})
	}
	panic("httpapi: a policy has no " + name)
}

// assign reads a value into place. In a merge patch a null sets the default.
func assign[T any](d *policyDraft, r *contract.Reader, place *T, read func() (T, error)) error {
	return contract.Assign(r, d.merged, place, read)
}

func (d *policyDraft) target(r *contract.Reader) (*fsmpb.Target, error) {
	if !d.merged {
		return target(r)
	}
	var patch fsmpb.Patch
	if err := patchTarget(r, &patch); err != nil {
		return nil, err
	}
	return mergeTarget(d.policy.Target, &patch)
}

func (d *policyDraft) retry(r *contract.Reader) (*fsmpb.Retry, error) {
	if !d.merged {
		return retry(r)
	}
	var patch fsmpb.Patch
	err := patchRetry(r, &patch)
	return task.MergeRetry(d.policy.Retry, &patch), err
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

const minPerSecond = 0.001 // one in about a quarter of an hour

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

// Signing secrets have the format of Standard Webhooks. They are never answered: answers show a fingerprint, and a
// request may send the fingerprint in place of a secret that the queue already has.
const (
	secretPrefix      = "whsec_"
	fingerprintPrefix = "sha256:"
)

const secretRule = "whsec_ and the base64 of 24 to 64 bytes"

// parseSecret reads a secret. Its errors never quote the text.
func parseSecret(field, text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return nil, &task.FieldError{Field: field, Detail: "does not begin with whsec_", Limit: secretRule}
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") { // the decoder skips line ends
		return nil, &task.FieldError{Field: field, Detail: "is not base64 after whsec_", Limit: secretRule}
	}
	if len(key) < task.MinSecretBytes || len(key) > task.MaxSecretBytes {
		return nil, &task.FieldError{Field: field, Detail: fmt.Sprintf("is of %d bytes", len(key)), Limit: secretRule}
	}
	return key, nil
}

// fingerprint returns a short hash that identifies a secret without revealing it.
func fingerprint(secret []byte) string {
	return fingerprintPrefix + hex.EncodeToString(task.SecretDigest(secret))
}

// keepSecrets returns the requested secrets. A fingerprint becomes the queue's present secret with that fingerprint.
func keepSecrets(asked []secret, current [][]byte) ([][]byte, error) {
	var out [][]byte
	for i, s := range asked {
		field := fmt.Sprintf("signing.secrets[%d]", i)
		if s.fingerprint != "" {
			if s.key = byFingerprint(s.fingerprint, current); s.key == nil {
				return nil, &task.FieldError{Field: field, Detail: "is the fingerprint of no secret that the queue has"}
			}
		}
		for _, other := range out {
			if bytes.Equal(other, s.key) {
				return nil, &task.FieldError{Field: field, Detail: "is the same secret again"}
			}
		}
		out = append(out, s.key)
	}
	return out, nil
}

func byFingerprint(fingerprinted string, secrets [][]byte) []byte {
	for _, key := range secrets {
		if fingerprint(key) == fingerprinted {
			return key
		}
	}
	return nil
}

// secret is a secret in a request, or the fingerprint of one.
type secret struct {
	key         []byte
	fingerprint string // in place of the key
}

func readSecret(r *contract.Reader, field string) (secret, error) {
	text, err := r.Text(field)
	if err != nil {
		return secret{}, err
	}
	if strings.HasPrefix(text, fingerprintPrefix) {
		return secret{fingerprint: text}, nil
	}
	key, err := parseSecret(field, text)
	return secret{key: key}, err
}
