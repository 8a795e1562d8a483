package listen

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/belfryhq/belfry/deploy/receiver"
)

// readSecrets reads a file of signing keys. An empty name gives no keys. Errors name the line but do not repeat its
// text.
func readSecrets(file string) ([][]byte, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var secrets [][]byte
	for i, line := range strings.Split(string(data), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		secret, err := receiver.ParseSecret(line)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", file, i+1, err)
		}
		secrets = append(secrets, secret)
	}
	if len(secrets) == 0 {
		return nil, errors.New(file + " has no secret in it")
	}
	return secrets, nil
}
