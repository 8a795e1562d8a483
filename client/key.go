package client

import (
	"crypto/rand"
	"encoding/base64"
	"strconv"
	"strings"
	"sync/atomic"
)

// keys makes idempotency keys that no other call has: a random beginning for each client, and a number.
type keys struct {
	prefix string
	last   atomic.Uint64
}

func newKeys() *keys {
	var b [9]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program rather
	return &keys{prefix: base64.RawURLEncoding.EncodeToString(b[:])}
}

func (k *keys) append(b []byte) []byte {
	return strconv.AppendUint(append(b, k.prefix...), k.last.Add(1), 36)
}

func (k *keys) next() string {
	var room [32]byte
	return string(k.append(room[:0]))
}

// newID is an id like those that the service makes, of 128 random bits.
func newID() string { return "t-" + strings.ToLower(rand.Text()) }
