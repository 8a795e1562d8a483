package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"time"
)

// KeyRecord is one API key as the cluster stores it, without the text of the key. The Grants of a record are never
// changed in place, since callers share them.
type KeyRecord struct {
	ID       string
	Name     string // for people
	Grants   []Grant
	Secrets  []KeySecret // newest last; more than one after a rotation
	Created  time.Time
	Expires  time.Time // zero: never
	LastUsed time.Time // to the hour; zero: never used
}

// KeySecret is the hash of one text of a key.
type KeySecret struct {
	Hash    [sha256.Size]byte // of the whole text, see Hash
	Expires time.Time         // zero: with the key
}

// judge reports whether a hash is one of the key's secrets and valid at an instant, and the end of its validity, which
// is zero for a secret that never expires. The time that judge takes does not depend on the bytes of the hashes.
func (k *KeyRecord) judge(hash *[sha256.Size]byte, now time.Time) (until time.Time, valid bool) {
	found := -1
	for i := range k.Secrets {
		equal := subtle.ConstantTimeCompare(k.Secrets[i].Hash[:], hash[:])
		found = subtle.ConstantTimeSelect(equal, i, found)
	}
	if found < 0 {
		return time.Time{}, false
	}
	until = earlier(k.Expires, k.Secrets[found].Expires)
	return until, until.IsZero() || now.Before(until)
}

// earlier returns the earlier of two ends. A zero one never comes.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
