package receiver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const secretPrefix = "whsec_"

// ParseSecret parses a signing key in its usual form: "whsec_" and base64. The error does not repeat the key.
func ParseSecret(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return nil, fmt.Errorf("a secret begins with %s", secretPrefix)
	}
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(secret) == 0 {
		return nil, fmt.Errorf("a secret is %s and base64", secretPrefix)
	}
	return secret, nil
}

// tolerance is the largest accepted difference between the clocks of sender and receiver. An older signature may be a
// replay.
const tolerance = 5 * time.Minute

// Errors of Verify.
var (
	ErrUnsigned = errors.New("not signed")
	ErrStale    = errors.New("signed more than five minutes ago or ahead")
	ErrForged   = errors.New("signed with none of these secrets, or changed since")
)

// Verify checks the signature of an arrival's request (Standard Webhooks). It returns nil if one of the secrets fits.
func Verify(a Arrival, secrets ...[]byte) error {
	id, timestamp := a.Header.Get("Webhook-Id"), a.Header.Get("Webhook-Timestamp")
	given := strings.Fields(a.Header.Get("Webhook-Signature"))
	if len(given) == 0 {
		return ErrUnsigned
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || a.At.Sub(time.Unix(seconds, 0)).Abs() > tolerance {
		return ErrStale
	}
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(a.Request)
		want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		for _, signature := range given {
			if hmac.Equal([]byte(signature), []byte(want)) {
				return nil
			}
		}
	}
	return ErrForged
}
