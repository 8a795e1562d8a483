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

// Signing secrets have the format of Standard Webhooks. They are never answered: answers show a fingerprint, and a
// request may send the fingerprint in place of a secret that the queue already has.
const (
	secretPrefix      = "whsec_"
	fingerprintPrefix = "sha256:"
	fingerprintBytes  = 4
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
	sum := sha256.Sum256(secret)
	return fingerprintPrefix + hex.EncodeToString(sum[:fingerprintBytes])
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
