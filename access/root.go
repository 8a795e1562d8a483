package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"os"
	"strings"
)

// RootKey is a key in a file of a node. Its caller is an admin of all namespaces.
type RootKey struct {
	hash   [sha256.Size]byte
	caller *Caller
}

// LoadRootKey reads a file with one key. It refuses a file that others than its owner and group may read, or that
// others than its owner may change. An error does not repeat the contents.
func LoadRootKey(path string) (*RootKey, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o027 != 0 {
		return nil, fmt.Errorf("%s has a secret in it and mode %04o: take the rights of others away (chmod 640 or 600)",
			path, mode)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	root, err := NewRootKey(strings.TrimSpace(string(data)))
	if err != nil {
		return nil, fmt.Errorf("%s: the content %w", path, err)
	}
	return root, nil
}

// NewRootKey returns the root key with a text.
func NewRootKey(text string) (*RootKey, error) {
	id, err := ParseKey(text)
	if err != nil {
		return nil, err
	}
	return &RootKey{hash: Hash(text), caller: &Caller{
		Kind: KindRoot, ID: id, Name: KindRoot, Grants: []Grant{{Role: Admin, Namespace: AllNamespaces}},
	}}, nil
}

// matches reports whether a hash is the one of the root key. There may be no root key.
func (r *RootKey) matches(hash *[sha256.Size]byte) bool {
	return r != nil && subtle.ConstantTimeCompare(r.hash[:], hash[:]) == 1
}
