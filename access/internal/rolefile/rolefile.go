// Package rolefile reads the YAML files in which operators give grants to identities. JSON is YAML, too.
package rolefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"
)

// maxBytes is the longest file that is read.
const maxBytes = 1 << 20

// Read decodes a file with one document. It refuses fields that the value does not have, and a file that others than
// its owner may change.
func Read(path string, value any) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s gives grants and has mode %04o: let only its owner change it (chmod 644 or 640)", path,
			info.Mode().Perm())
	case info.Size() > maxBytes:
		return fmt.Errorf("%s is longer than %d bytes", path, maxBytes)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := Decode(data, value); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Decode decodes one document, as Read does.
func Decode(data []byte, value any) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(value); errors.Is(err, io.EOF) {
		return errors.New("is empty")
	} else if err != nil {
		return err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("has more than one document")
	}
	return nil
}
