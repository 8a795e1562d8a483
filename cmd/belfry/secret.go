package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
)

const secretBytes = 32

// generateSecret makes a signing secret and writes it into a new file that only its owner can read. The file is on disk
// before the queue has the secret: a receiver without the file could check no signature.
func generateSecret(path string) (secret string, err error) {
	var key [secretBytes]byte
	_, _ = rand.Read(key[:]) // never fails: crypto/rand ends the process instead
	secret = "whsec_" + base64.StdEncoding.EncodeToString(key[:])
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("--generate-secret: %w", err)
	}
	_, err = f.WriteString(secret + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("--generate-secret: %w", err)
	}
	return secret, nil
}
