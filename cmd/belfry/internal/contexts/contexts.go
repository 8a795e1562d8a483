// Package contexts keeps the clusters that a user calls, under names: their addresses, namespace and credentials.
//
//	current: prod
//	contexts:
//	  prod:
//	    addr: [https://n1:8400, https://n2:8400]
//	    namespace: orders
//	    key: bfy_…
//
// The file is contexts.yaml in the folder belfry of os.UserConfigDir, or the file of BELFRY_CONTEXTS. It may hold keys,
// so that only its owner may read it: Load refuses another one. Save replaces it in one step.
package contexts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/belfryhq/belfry/client"
)

// PathVariable names the file of the contexts in place of the one in the user's configuration folder.
const PathVariable = "BELFRY_CONTEXTS"

// Context is a cluster under a name. It has a field for each flag of a connection.
type Context struct {
	Addrs      []string `yaml:"addr,omitempty"`
	Namespace  string   `yaml:"namespace,omitempty"`
	Key        Secret   `yaml:"key,omitempty"` // an API key or a token; excludes KeyFile
	KeyFile    string   `yaml:"key-file,omitempty"`
	CA         string   `yaml:"ca,omitempty"`
	ClientCert string   `yaml:"client-cert,omitempty"`
	ClientKey  string   `yaml:"client-key,omitempty"`
}

// Secret is a text that is written to the file and printed nowhere.
type Secret struct{ client.Secret }

// NewKey returns the value of Context.Key.
func NewKey(text string) Secret { return Secret{client.NewSecret(text)} }

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.Text() == "" }

// MarshalYAML returns the text for the file.
func (s Secret) MarshalYAML() (any, error) { return s.Text(), nil }

// UnmarshalYAML reads the text of the file.
func (s *Secret) UnmarshalYAML(node *yaml.Node) error {
	var text string
	err := node.Decode(&text)
	*s = NewKey(text)
	return err
}

// File is the content of a file of contexts.
type File struct {
	Current  string              `yaml:"current,omitempty"` // empty: none
	Contexts map[string]*Context `yaml:"contexts,omitempty"`
	path     string
}

// ErrUnknown means that there is no context of a name.
var ErrUnknown = errors.New("there is no context")

// names are the names that a context may have.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@:-]{0,62}$`)

// CheckName refuses a name that no context may have.
func CheckName(name string) error {
	if !names.MatchString(name) {
		return fmt.Errorf("%q is no name of a context: 1 to 63 letters, digits and any of . _ @ : -", name)
	}
	return nil
}

// Path returns the file of the contexts. Without a home folder it is empty: there are none.
func Path(lookupEnv func(string) (string, bool)) string {
	if path, set := lookupEnv(PathVariable); set && path != "" {
		return path
	}
	folder, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(folder, "belfry", "contexts.yaml")
}

// Load reads a file. A file that does not exist has no contexts.
func Load(path string) (*File, error) {
	f := &File{Contexts: map[string]*Context{}, path: path}
	if path == "" {
		return f, nil
	}
	opened, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }() // the file was only read
	info, err := opened.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkMode(path, info); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(opened)
	if err != nil {
		return nil, err
	}
	doc := yaml.NewDecoder(bytes.NewReader(text))
	doc.KnownFields(true)
	if err := doc.Decode(f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, f.check()
}

// checkMode refuses a file that others can read or change.
func checkMode(path string, info fs.FileInfo) error {
	if runtime.GOOS == "windows" { // where a mode says nothing about other users
		return nil
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("the contexts in %s may hold keys, and other users can reach the file (mode %04o): "+
			"run chmod 600 %[1]s", path, mode)
	}
	return nil
}

// check refuses contexts that no call of this package has made.
func (f *File) check() error {
	for name, c := range f.Contexts {
		if err := CheckName(name); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
		switch {
		case c == nil:
			f.Contexts[name] = &Context{}
		case !c.Key.IsZero() && c.KeyFile != "":
			return fmt.Errorf("%s: context %q has a key and a key-file: keep one of them", f.path, name)
		}
	}
	if f.Contexts == nil {
		f.Contexts = map[string]*Context{}
	}
	return nil
}

// Path returns the name of the file.
func (f *File) Path() string { return f.path }

// Names returns the names of the contexts, sorted.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.Contexts)) }

// Get returns the context of a name.
func (f *File) Get(name string) (*Context, error) {
	c, ok := f.Contexts[name]
	if !ok {
		return nil, fmt.Errorf("%w %q; belfry context list names those there are", ErrUnknown, name)
	}
	return c, nil
}

// Remove removes a context. If it is the current one, there is none afterwards.
func (f *File) Remove(name string) error {
	if _, err := f.Get(name); err != nil {
		return err
	}
	delete(f.Contexts, name)
	if f.Current == name {
		f.Current = ""
	}
	return nil
}

// Rename gives a context another name. It refuses the name of another context.
func (f *File) Rename(from, to string) error {
	c, err := f.Get(from)
	if err != nil {
		return err
	}
	if err := CheckName(to); err != nil {
		return err
	}
	if _, taken := f.Contexts[to]; taken {
		return fmt.Errorf("there is a context %q already", to)
	}
	delete(f.Contexts, from)
	f.Contexts[to] = c
	if f.Current == from {
		f.Current = to
	}
	return nil
}

// Save writes the file in one step, readable by its owner alone, into a folder that it makes if it is missing.
func (f *File) Save() error {
	if f.path == "" {
		return fmt.Errorf("there is no folder for contexts: set HOME, or name a file by %s", PathVariable)
	}
	path := f.path
	if target, err := filepath.EvalSymlinks(path); err == nil { // a link stays a link
		path = target
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	text, err := yaml.Marshal(f)
	if err != nil {
		return err
	}
	return replace(folder, path, text)
}

// replace puts a new file in the place of another one.
func replace(folder, path string, text []byte) (err error) {
	temp, err := os.CreateTemp(folder, ".contexts-*") // with the mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp.Name())
		}
	}()
	_, err = temp.Write(text)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
