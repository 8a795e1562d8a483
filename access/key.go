package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
)

// The text of a key consists of parts with fixed lengths, joined by underscores.
const (
	keyPrefix      = "bfy_"
	idChars        = 10
	secretBytes    = 32
	secretChars    = 52 // secretBytes in base32
	checksumChars  = 7  // CRC-32 in base32
	idEnd          = len(keyPrefix) + idChars
	secretEnd      = idEnd + 1 + secretChars
	keyChars       = secretEnd + 1 + checksumChars
	base32Alphabet = "abcdefghijklmnopqrstuvwxyz234567"
)

// The reasons why a text is no key. They do not repeat the text.
var (
	errNoKey    = errors.New("is no API key: a key begins with " + keyPrefix)
	errCutKey   = errors.New("is no whole API key: a key has 75 characters")
	errKeyForm  = errors.New("is no API key: a key is bfy_<id>_<secret>_<checksum>, of lower case letters and digits")
	errChecksum = errors.New("is a mistyped API key: its checksum does not fit")
)

// NewKey makes a key with a new id and secret, both random. The text is the only copy of the secret.
func NewKey() (id, text string) {
	raw := make([]byte, 7) // 56 bits are 12 characters; the id takes ten
	_, _ = rand.Read(raw)  // never fails: crypto/rand ends the process instead
	id = encodeBase32(raw)[:idChars]
	return id, NewSecret(id)
}

// NewSecret makes the text of a further key with a known id, for a rotation.
func NewSecret(id string) (text string) {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret)
	body := keyPrefix + id + "_" + encodeBase32(secret)
	return body + "_" + checksum(body)
}

// ParseKey returns the id in the text of a key. It tells a cut or mistyped text from a key by form and checksum alone.
// An error does not repeat the text.
func ParseKey(text string) (id string, err error) {
	switch {
	case !strings.HasPrefix(text, keyPrefix):
		return "", errNoKey
	case len(text) != keyChars:
		return "", errCutKey
	case text[idEnd] != '_' || text[secretEnd] != '_':
		return "", errKeyForm
	}
	id, secret := text[len(keyPrefix):idEnd], text[idEnd+1:secretEnd]
	if strings.Trim(id, base32Alphabet) != "" || strings.Trim(secret, base32Alphabet) != "" {
		return "", errKeyForm
	}
	if checksum(text[:secretEnd]) != text[secretEnd+1:] {
		return "", errChecksum
	}
	return id, nil
}

// Hash returns the SHA-256 of a key's text, which is stored in place of the key.
func Hash(text string) [sha256.Size]byte {
	var key [keyChars]byte // on the stack: keys are hashed for each call
	return sha256.Sum256(append(key[:0], text...))
}

func checksum(body string) string {
	return encodeBase32(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(body))))
}

func encodeBase32(raw []byte) string {
	return base32.NewEncoding(base32Alphabet).WithPadding(base32.NoPadding).EncodeToString(raw)
}
