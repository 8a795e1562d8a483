package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// applySettings gives every flag that is not on the command line its value of the environment or of the file.
func applySettings(flags *pflag.FlagSet, lookupEnv func(string) (string, bool)) error {
	if err := applyEnv(flags, lookupEnv); err != nil {
		return &usageError{err}
	}
	path, err := flags.GetString("config")
	if err != nil {
		return err
	}
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return &usageError{err}
	}
	if err := applyFile(flags, path, data); err != nil {
		return &usageError{err}
	}
	return nil
}

func envName(flag string) string {
	return "BELFRY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// settable: all flags but those that only ask for something to be printed.
func settable(f *pflag.Flag) bool { return f.Name != "help" && f.Name != "version" }

func applyEnv(flags *pflag.FlagSet, lookupEnv func(string) (string, bool)) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		value, set := lookupEnv(envName(f.Name))
		if f.Changed || !set || !settable(f) {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			errs = append(errs, plainValue(envName(f.Name), err))
		}
	})
	return errors.Join(errs...)
}

// applyFile reads a mapping of flag names to scalars or lists of scalars.
func applyFile(flags *pflag.FlagSet, path string, data []byte) error {
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil // an empty file
	} else if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: not a mapping of settings", path, root.Line)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if seen[key.Value] {
			return fmt.Errorf("%s:%d: %q is there twice", path, key.Line, key.Value)
		}
		seen[key.Value] = true
		if err := applyKey(flags, key.Value, value); err != nil {
			return fmt.Errorf("%s:%d: %w", path, key.Line, err)
		}
	}
	return nil
}

func applyKey(flags *pflag.FlagSet, key string, value *yaml.Node) error {
	f := flags.Lookup(key)
	if f == nil || !settable(f) || key == "config" {
		return fmt.Errorf("unknown setting %q", key)
	}
	values, err := scalars(value)
	if err != nil {
		return fmt.Errorf("%q: %w", key, err)
	}
	if f.Changed {
		return nil // nearer: the command line or the environment
	}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		f.Changed = true
		err = list.Replace(values)
	} else if len(values) != 1 || value.Kind != yaml.ScalarNode {
		err = errors.New("takes one value")
	} else if err = flags.Set(key, values[0]); err != nil {
		return plainValue(fmt.Sprintf("%q:", key), err)
	}
	if err != nil {
		return fmt.Errorf("%q: %w", key, err)
	}
	return nil
}

func scalars(node *yaml.Node) ([]string, error) {
	switch node.Kind {
	case yaml.ScalarNode:
		return []string{node.Value}, nil
	case yaml.SequenceNode:
		values := make([]string, len(node.Content))
		for i, item := range node.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, errors.New("a list of anything but plain values")
			}
			values[i] = item.Value
		}
		return values, nil
	}
	return nil, errors.New("neither a value nor a list")
}
