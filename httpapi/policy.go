package httpapi

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// policyDraft is a queue's policy as a request gives it. The spec has its settings for tasks. Its secrets are not in
// the policy yet, since some may be given by fingerprint.
type policyDraft struct {
	specReader
	policy  *fsmpb.QueuePolicy
	secrets []secret
	signs   bool // the request has the member signing
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
	d := &policyDraft{
		specReader: specReader{parser: p, spec: new(fsmpb.Spec)},
		policy:     &fsmpb.QueuePolicy{Namespace: p.namespace, Queue: queue},
	}
	err := d.members().Root(data, false)
	setSettings(d.policy, d.spec)
	if err == nil {
		err = p.checkPolicy(d.policy)
	}
	return d, err
}

// members returns the members of a policy.
func (d *policyDraft) members() contract.Members {
	q := d.policy
	rate := func(r *contract.Reader, full string) (float64, error) {
		return r.Number(full, minPerSecond, task.MaxPerSecond)
	}
	keep := func(r *contract.Reader, full string) (int64, error) {
		return positive(r, full, task.MaxKeep, "100 years")
	}
	m := contract.Members{
		"queue":            inPath("queue", q.Queue),
		"max_in_flight":    contract.Whole(&q.MaxInFlight, 1, task.MaxInFlight),
		"max_per_second":   contract.Into(&q.MaxPerSecond, rate),
		"batch_max":        contract.Whole(&q.BatchMax, 1, task.MaxBatch),
		"paused":           contract.Bool(&q.Paused),
		"keep_done":        contract.Into(&q.KeepDoneMs, keep),
		"keep_dead":        contract.Into(&q.KeepDeadMs, keep),
		"group_in_flight":  contract.Whole(&q.GroupInFlight, 1, task.MaxInFlight),
		"group_per_second": contract.Into(&q.GroupPerSecond, rate),
		"fifo":             contract.Bool(&q.Fifo),
		"fair":             contract.Bool(&q.Fair),
		"group_weights":    contract.Into(&q.GroupWeights, d.weights),
		"signing":          d.signing,
	}
	for _, f := range []contract.Field{
		contract.Target, contract.Retry, contract.Window, contract.OnDelivered, contract.OnDead,
	} {
		m[f.String()] = func(r *contract.Reader, _ string, _ bool) error {
			d.r = r
			return d.member(f)
		}
	}
	for _, name := range []string{"counts", "version", "window_open", "window_opens_at"} {
		m[name] = contract.SetByService
	}
	return m
}

func (p *parser) checkPolicy(policy *fsmpb.QueuePolicy) error {
	if err := task.CheckQueue(policy); err != nil {
		return err
	}
	if t := policy.Target; t != nil {
		return checked(p.receivers.CheckURL(t.Url))
	}
	return nil
}

const minPerSecond = 0.001 // one in about a quarter of an hour

// signing reads the secrets, the newest first. The policy keeps the present ones until keepSecrets resolves
// fingerprints.
func (d *policyDraft) signing(r *contract.Reader, full string, merged bool) error {
	const field = "signing.secrets"
	d.signs = true
	if merged && r.Null() {
		d.policy.Secrets = nil
		return nil
	}
	err := contract.Members{
		"secrets": contract.Into(&d.secrets, func(r *contract.Reader, full string) ([]secret, error) {
			tooMany := &task.FieldError{Field: field, Detail: "has more than two", Limit: "1 or 2"}
			return contract.List(r, full, task.MaxSecrets, tooMany, readSecret)
		}),
	}.Object(r, full, false)
	if err == nil && len(d.secrets) == 0 {
		err = &task.FieldError{Field: field, Detail: "is absent or empty", Limit: "1 or 2"}
	}
	return err
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
func keepSecrets(requested []secret, current [][]byte) ([][]byte, error) {
	var out [][]byte
	for i, s := range requested {
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

// weights reads the weights of groups, an object. A merge patch adds them to the present ones, and a null removes one.
// The whole policy is checked afterwards, so a patch may add groups before it removes others; the bound here limits the
// work that a body can ask for.
func (d *policyDraft) weights(r *contract.Reader, field string) (all []*fsmpb.GroupWeight, err error) {
	if d.patch != nil {
		all = slices.Clone(d.policy.GroupWeights)
	}
	seen := map[string]bool{}
	err = r.Each(field, func(raw []byte) error {
		name, full := string(raw), field+"."+contract.Clip(string(raw))
		if seen[name] {
			return contract.Twice(full)
		}
		seen[name] = true
		var weight uint32
		if err := contract.Whole(&weight, 1, task.MaxGroupWeight)(r, full, d.patch != nil); err != nil {
			return err
		}
		if all = setWeight(all, name, weight); len(all) > 2*task.MaxGroupWeights {
			return &task.FieldError{Field: field, Detail: "has too many groups", Limit: fmt.Sprint(task.MaxGroupWeights)}
		}
		return nil
	})
	return all, err
}

// setWeight sets the weight of a group in a list sorted by group; 0 removes it.
func setWeight(list []*fsmpb.GroupWeight, group string, weight uint32) []*fsmpb.GroupWeight {
	i, found := slices.BinarySearchFunc(list, group, func(w *fsmpb.GroupWeight, group string) int {
		return cmp.Compare(w.Group, group)
	})
	if found {
		list = slices.Delete(list, i, i+1)
	}
	if weight == 0 {
		return list
	}
	return slices.Insert(list, i, &fsmpb.GroupWeight{Group: group, Weight: weight})
}

// appendGroups appends how a queue treats groups.
func appendGroups(b []byte, p *fsmpb.QueuePolicy) []byte {
	b = appendCount(b, contract.GroupInFlight, p.GetGroupInFlight())
	b = appendRate(b, contract.GroupPerSecond, p.GetGroupPerSecond())
	if p.GetFifo() {
		b = contract.AppendBool(b, contract.FIFO, true)
	}
	if p.GetFair() {
		b = contract.AppendBool(b, contract.Fair, true)
	}
	if len(p.GetGroupWeights()) == 0 {
		return b
	}
	b = append(contract.AppendName(b, contract.GroupWeights), '{')
	for i, w := range p.GroupWeights {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(contract.AppendString(b, w.Group), ':')
		b = strconv.AppendUint(b, uint64(w.Weight), 10)
	}
	return append(b, '}')
}
