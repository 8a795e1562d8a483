package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const signatureScheme = "v1" // HMAC-SHA256 in Standard Webhooks

// isSigned reports whether one of the signatures in the headers, separated by spaces, is right under one of the
// secrets. It skips signatures of other schemes.
func (v *Verifier) isSigned(id, timestamp string, body []byte, headers []string) bool {
	var right []byte
	for _, header := range headers {
		for signature := range strings.FieldsSeq(header) {
			scheme, encoded, _ := strings.Cut(signature, ",")
			if scheme != signatureScheme {
				continue
			}
			given, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil || len(given) != sha256.Size {
				continue
			}
			if right == nil {
				right = v.signatures(id, timestamp, body)
			}
			for at := 0; at < len(right); at += sha256.Size {
				if hmac.Equal(given, right[at:at+sha256.Size]) {
					return true
				}
			}
		}
	}
	return false
}

// signatures returns the signatures under all secrets, concatenated.
func (v *Verifier) signatures(id, timestamp string, body []byte) []byte {
	all := make([]byte, 0, len(v.secrets)*sha256.Size)
	for _, key := range v.secrets {
		all = sign(all, key, id, timestamp, body)
	}
	return all
}

func sign(b, key []byte, id, timestamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return mac.Sum(b)
}

// Sign returns the webhook-signature of a request under a secret, for a receiver's own tests.
func Sign(secret, id string, at time.Time, body []byte) (string, error) {
	key, err := keyOf(secret)
	if err != nil {
		return "", fmt.Errorf("webhook: the secret %w", err)
	}
	sum := sign(nil, key, id, strconv.FormatInt(at.Unix(), 10), body)
	return signatureScheme + "," + base64.StdEncoding.EncodeToString(sum), nil
}
