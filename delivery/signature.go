package delivery

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

const signatureScheme = "v1," // HMAC-SHA256 in Standard Webhooks

// signature returns the value of webhook-signature (Standard Webhooks 1.0.0): one signature of id, timestamp and body
// for each secret, in the order of the secrets, with a space between. A receiver accepts the request if one signature
// is right, so that during a rotation it may hold either secret.
func signature(secrets [][]byte, id, timestamp string, body []byte) string {
	const length = len(signatureScheme) + (sha256.Size+2)/3*4 + 1
	out := make([]byte, 0, len(secrets)*length)
	signed := []byte(id + "." + timestamp + ".")
	for i, secret := range secrets {
		if i > 0 {
			out = append(out, ' ')
		}
		mac := hmac.New(sha256.New, secret)
		mac.Write(signed)
		mac.Write(body)
		out = append(out, signatureScheme...)
		out = base64.StdEncoding.AppendEncode(out, mac.Sum(nil))
	}
	return string(out)
}
