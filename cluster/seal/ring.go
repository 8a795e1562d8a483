package seal

import (
	"bytes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// KeyBytes is the size of a key.
const KeyBytes = chacha20poly1305.KeySize

// MaxKeys is the largest number of keys in a file.
const MaxKeys = 16

// Ring is the keys of a node at one time. It is immutable, and a nil Ring has no keys.
type Ring struct{ keys []key } // the first one seals

type key struct {
	id   string
	aead cipher.AEAD
}

// MissingKeyError reports secrets that are sealed under a key that this node does not have. It wraps
// task.ErrNotProposed.
type MissingKeyError struct{ Key string } // id of the key

func (e *MissingKeyError) Error() string {
	return "the secrets are sealed under cluster key " + e.Key + ", which is not in this node's --cluster-key-file"
}

// Unwrap returns task.ErrNotProposed.
func (e *MissingKeyError) Unwrap() error { return task.ErrNotProposed }

// Parse reads the contents of a key file. Its errors quote no line.
func Parse(data []byte) (*Ring, error) {
	r := new(Ring)
	number := 0
	for line := range bytes.Lines(data) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		k, err := parseKey(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", number, err)
		case slices.Contains(r.IDs(), k.id):
			return nil, fmt.Errorf("line %d: the key is there twice", number)
		case len(r.keys) == MaxKeys:
			return nil, fmt.Errorf("line %d: more than %d keys", number, MaxKeys)
		}
		r.keys = append(r.keys, k)
	}
	if len(r.keys) == 0 {
		return nil, errors.New("it has no key")
	}
	return r, nil
}

func parseKey(text []byte) (key, error) {
	raw := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(raw, text)
	if err != nil || n != KeyBytes {
		return key{}, fmt.Errorf("is not the base64 of %d bytes, as `openssl rand -base64 %d` writes it", KeyBytes, KeyBytes)
	}
	aead, err := chacha20poly1305.NewX(raw[:n])
	return key{idOf(raw[:n]), aead}, err
}

// idOf returns the id of a key: 32 bits of a hash, which tell nothing about 256 random bits.
func idOf(raw []byte) string {
	sum := sha256.Sum256(append([]byte("id of a cluster key\n"), raw...))
	return hex.EncodeToString(sum[:4])
}

// IDs returns the ids of the keys, the sealing one first.
func (r *Ring) IDs() []string {
	if r == nil {
		return nil
	}
	var ids []string
	for _, k := range r.keys {
		ids = append(ids, k.id)
	}
	return ids
}

// First returns the id of the key that seals, or "" without keys.
func (r *Ring) First() string {
	if r == nil {
		return ""
	}
	return r.keys[0].id
}

// ErrDamaged is the error of a sealed text that is damaged, or bound to something else.
var ErrDamaged = errors.New("a sealed text is damaged, or was moved")

// SealText encrypts a text under the first key, of which there must be one. Opening takes the same binding.
func (r *Ring) SealText(plain, binding []byte) *fsmpb.Sealed {
	k := r.keys[0]
	nonce := make([]byte, k.aead.NonceSize(), k.aead.NonceSize()+len(plain)+k.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails: crypto/rand ends the process instead
	return &fsmpb.Sealed{Key: k.id, Data: k.aead.Seal(nonce, nonce, plain, binding)}
}

// OpenText returns the plain text of a sealed one. The error is ErrDamaged, or a *MissingKeyError if the ring lacks the
// key.
func (r *Ring) OpenText(sealed *fsmpb.Sealed, binding []byte) ([]byte, error) {
	k, err := r.key(sealed.Key)
	if err != nil {
		return nil, err
	}
	size := k.aead.NonceSize()
	if len(sealed.Data) < size {
		return nil, ErrDamaged
	}
	plain, err := k.aead.Open(nil, sealed.Data[:size], sealed.Data[size:], binding)
	if err != nil {
		return nil, ErrDamaged
	}
	return plain, nil
}

func (r *Ring) key(id string) (key, error) {
	if r != nil {
		for _, k := range r.keys {
			if k.id == id {
				return k, nil
			}
		}
	}
	return key{}, &MissingKeyError{id}
}
