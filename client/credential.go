package client

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// Secret is a text that must not be shown, such as an API key. The packages fmt, log/slog and encoding/json write ***
// in its place. The zero Secret is empty.
type Secret struct {
	text *string // a pointer: fmt shows its address where it cannot call Format, as in unexported fields
}

// NewSecret returns a Secret with this text.
func NewSecret(text string) Secret { return Secret{&text} }

// Text returns the text itself.
func (s Secret) Text() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// hidden stands for the text of a Secret wherever one is written.
const hidden = "***"

// Format writes *** for every verb, and nothing for an empty Secret.
func (s Secret) Format(f fmt.State, _ rune) {
	if s.Text() != "" {
		_, _ = io.WriteString(f, hidden) // fmt keeps the error
	}
}

// MarshalText returns ***, or nothing for an empty Secret.
func (s Secret) MarshalText() ([]byte, error) { return fmt.Append(nil, s), nil }

// UnmarshalText reads the text itself.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// maxKeyBytes is the largest size of a key or token that the service judges.
const maxKeyBytes = 16 << 10

// credential is the key of a client's calls.
type credential struct {
	file string // holds the key; empty: the key never changes

	mu     sync.Mutex
	seen   os.FileInfo // state of the file when it was read last; nil: it was not
	header Secret      // value of the header Authorization; empty: calls carry none
}

// newCredential returns the credential of a Config. A file is read at the first call.
func newCredential(cfg *Config) (*credential, error) {
	k := &credential{file: cfg.KeyFile}
	if cfg.Key.Text() == "" {
		return k, nil
	}
	header, err := bearer(cfg.Key.Text())
	if err != nil {
		return nil, fmt.Errorf("client: Config.Key %w", err)
	}
	k.header = NewSecret(header)
	return k, nil
}

// present reports whether calls carry a key.
func (k *credential) present() bool { return k.file != "" || k.header.Text() != "" }

// authorization returns the value of the header Authorization; empty: none. It reads the file again once the file has
// changed, so that a rotated key is used without a restart.
func (k *credential) authorization() (string, error) {
	if k.file == "" {
		return k.header.Text(), nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now, err := os.Stat(k.file)
	if err != nil {
		return "", fmt.Errorf("the key file: %w", err)
	}
	if k.seen != nil && sameFile(k.seen, now) {
		return k.header.Text(), nil
	}
	text, err := readKeyFile(k.file)
	if err != nil {
		return "", err
	}
	header, err := bearer(text)
	if err != nil {
		return "", fmt.Errorf("the key file %s %w", k.file, err)
	}
	k.seen, k.header = now, NewSecret(header)
	return header, nil
}

// sameFile reports whether a file has not changed between two looks.
func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

func readKeyFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("the key file: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxKeyBytes+1))
	if err != nil {
		return "", fmt.Errorf("the key file: %w", err)
	}
	return string(data), nil
}

var (
	errNoKey      = errors.New("is empty")
	errKeyTooLong = fmt.Errorf("is longer than %d bytes", maxKeyBytes)
	errKeyBytes   = errors.New("has characters that no key has: spaces, control characters or others than ASCII")
)

// bearer returns the value of the header Authorization for a key. White space around the key is left out. The errors do
// not show the key.
func bearer(key string) (string, error) {
	key = strings.TrimSpace(key)
	switch {
	case key == "":
		return "", errNoKey
	case len(key) > maxKeyBytes:
		return "", errKeyTooLong
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errKeyBytes
	}
	return "Bearer " + key, nil
}

// redact replaces the key of a request in the answer to it, so that a server or a proxy that echoes requests cannot put
// the key into an error.
func redact(body []byte, authorization string) []byte {
	key, ours := strings.CutPrefix(authorization, "Bearer ")
	if !ours || key == "" {
		return body
	}
	return []byte(strings.ReplaceAll(string(body), key, hidden))
}
