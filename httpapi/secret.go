package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// Signing secrets as Standard Webhooks writes them. They go in and never come out: answers show a fingerprint, and a
// request may repeat the fingerprint in place of a secret that the queue has already.
const (
	secretPrefix      = "whsec_"
	fingerprintPrefix = "sha256:"
	fingerprintBytes  = 4
)

const secretRule = "whsec_ and the base64 of 24 to 64 bytes"

// parseSecret never quotes what it refuses.
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

// fingerprint tells secrets apart without giving them away.
func fingerprint(secret []byte) string {
	sum := sha256.Sum256(secret)
	return fingerprintPrefix + hex.EncodeToString(sum[:fingerprintBytes])
}

// keepSecrets puts the queue's own secrets in the places where the request names them by their fingerprints.
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

// secret is one that a request brings, or names.
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
