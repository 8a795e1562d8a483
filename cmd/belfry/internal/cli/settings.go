package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// Apply gives every flag that is not on the command line its value from the environment, from the file, or from the
// context.
func Apply(cmd *cobra.Command, lookupEnv func(string) (string, bool)) error {
	flags := cmd.Flags()
	if err := checkNamespace(cmd); err != nil {
		return WrongUsage(err)
	}
	if err := applyEnv(cmd, lookupEnv); err != nil {
		return WrongUsage(err)
	}
	path, err := flags.GetString("config")
	if err != nil {
		return err
	}
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return WrongUsage(err)
		}
		if err := applyFile(flags, path, data); err != nil {
			return WrongUsage(err)
		}
	}
	if err := applyContext(flags, lookupEnv); err != nil {
		return WrongUsage(err)
	}
	return nil
}

// Offline is the annotation of a command that calls no node, although its noun does.
const Offline = "offline"

// IsCall reports whether a command calls a cluster.
func IsCall(cmd *cobra.Command) bool {
	if _, offline := cmd.Annotations[Offline]; offline {
		return false
	}
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	return cmd.GroupID == CallGroup
}

// Variable returns the name of the environment variable that sets a flag, or "" if no variable does. A variable
// belongs to one command, so that a node's settings cannot steer a demo. Commands that call a cluster take only their
// connection from the environment: their other settings are on the command line.
func Variable(cmd *cobra.Command, f *pflag.Flag) string {
	switch {
	case !Settable(f):
		return ""
	case !IsCall(cmd):
		_, path, _ := strings.Cut(cmd.CommandPath(), " ")
		return "BELFRY_" + strings.ToUpper(strings.NewReplacer("-", "_", " ", "_").Replace(path+" "+f.Name))
	}
	return connectionVariables[f.Name]
}

// Settable reports whether a flag is a setting, rather than a request to print something.
func Settable(f *pflag.Flag) bool { return f.Name != "help" && f.Name != "version" }

func applyEnv(cmd *cobra.Command, lookupEnv func(string) (string, bool)) error {
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := Variable(cmd, f)
		value, set := lookupEnv(name)
		if f.Changed || !set || name == "" || peerChanged(cmd.Flags(), f) {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			errs = append(errs, plainValue(name, err))
		}
	})
	return errors.Join(errs...)
}

// peerChanged reports whether another flag has set the value of this one, as --json sets that of --output.
func peerChanged(flags *pflag.FlagSet, f *pflag.Flag) bool {
	return slices.ContainsFunc(f.Annotations[output.Peer], flags.Changed)
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
	if f == nil || !Settable(f) || key == "config" {
		return fmt.Errorf("unknown setting %q", key)
	}
	values, err := scalars(value)
	if err != nil {
		return fmt.Errorf("%q: %w", key, err)
	}
	if f.Changed || peerChanged(flags, f) {
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
