package access

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"time"
)

// Source knows the keys that the cluster has committed. The methods are called for each call of the API and by many
// goroutines.
type Source interface {
	// KeysVersion returns a number that changes with each change of Key or KeysInForce, never before it. Zero stands for
	// a node that does not know the cluster's keys yet.
	KeysVersion() uint64
	// KeysInForce reports whether the cluster demands credentials. It stays true after the first key.
	KeysInForce() bool
	// Key returns the key with an id.
	Key(id string) (record KeyRecord, exists bool)
	// KeyUsed notes the use of a key.
	KeyUsed(id string)
}

// Credentials are the parts of a call that tell its caller.
type Credentials struct {
	Authorization string            // header of the call; empty: none
	Certificate   *x509.Certificate // verified certificate of the client; nil: none
	Addr          netip.Addr        // of the client
}

// RefusalKind is the reason why credentials make no caller.
type RefusalKind uint8

// The kinds of refusals.
const (
	Missing     RefusalKind = iota + 1 // the call has no credentials
	Malformed                          // the credentials are none that the node knows, by their form alone
	Unknown                            // the credentials are wrong, expired or revoked
	TooMany                            // the address has sent too many wrong credentials
	Unavailable                        // the node cannot judge the credentials now
)

var refusalNames = [...]string{"", "missing", "malformed", "unknown", "too many", "unavailable"}

// String returns a word for the audit log.
func (k RefusalKind) String() string {
	if int(k) < len(refusalNames) {
		return refusalNames[k]
	}
	return fmt.Sprintf("refusal %d", uint8(k))
}

// Refusal is the error for credentials that make no caller. It repeats no part of them.
type Refusal struct {
	Kind       RefusalKind
	Detail     string        // a sentence for the caller, without a full stop
	RetryAfter time.Duration // zero, unless a repetition may succeed
}

func (r *Refusal) Error() string { return r.Detail }
