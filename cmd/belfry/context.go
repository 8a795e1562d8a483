package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/contexts"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newContext() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "context",
		Short: "Keep addresses and keys of clusters under names",
		Long: `Keep the addresses, the namespace and the credentials of clusters under names,
in a file that only you can read: contexts.yaml in the folder belfry of your
configuration folder, or the file of ` + contexts.PathVariable + `.

A command takes each setting from the nearest place: the flag, the environment
variable, the context. --context NAME, or BELFRY_CONTEXT, picks a context for
one call. The current context is for calls that name no address: neither by
--addr nor by BELFRY_ADDR. An empty name means no context.`,
		Example: `  belfry context set prod --addr https://n1:8400 --key-stdin < prod.key
  belfry context use prod
  belfry node list --context prod`,
	}, newContextList(), newContextShow(), newContextCurrent(), newContextUse(), newContextSet(), newContextRename(),
		newContextRemove())
}

// contextVerb completes a command that calls no node.
func contextVerb(cmd *cobra.Command, run func(c *cli.Call, file *contexts.File) error) *cobra.Command {
	cmd.Annotations = map[string]string{cli.Offline: ""}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withContexts(&cli.Call{Command: cmd, Args: args}, run)
	}
	return cmd
}

// shownVerb completes a command that calls no node and prints contexts.
func shownVerb(cmd *cobra.Command, run func(c *cli.Call, file *contexts.File) error) *cobra.Command {
	cmd.Annotations = map[string]string{cli.Offline: ""}
	return cli.LocalVerb(cmd, func(c *cli.Call) error { return withContexts(c, run) })
}

func withContexts(c *cli.Call, run func(c *cli.Call, file *contexts.File) error) error {
	file, err := contexts.Load(contexts.Path(os.LookupEnv))
	if err != nil {
		return err
	}
	err = run(c, file)
	if errors.Is(err, contexts.ErrUnknown) {
		err = cli.WrongUsage(err)
	}
	return err
}

// shownContext is a context without its key.
type shownContext struct {
	Name       string   `json:"name"`
	Current    bool     `json:"current"`
	Addrs      []string `json:"addrs"`
	Namespace  string   `json:"namespace,omitempty"`
	HasKey     bool     `json:"has_key"` // in the file of the contexts
	KeyFile    string   `json:"key_file,omitempty"`
	CA         string   `json:"ca,omitempty"`
	ClientCert string   `json:"client_cert,omitempty"`
	ClientKey  string   `json:"client_key,omitempty"`
}

func showContext(file *contexts.File, name string, c *contexts.Context) shownContext {
	return shownContext{
		Name: name, Current: name == file.Current, Addrs: c.Addrs, Namespace: c.Namespace, HasKey: !c.Key.IsZero(),
		KeyFile: c.KeyFile, CA: c.CA, ClientCert: c.ClientCert, ClientKey: c.ClientKey,
	}
}

// credentials names the proofs of identity that a context has.
func (s *shownContext) credentials() string {
	var parts []string
	if s.HasKey {
		parts = append(parts, "a key in this file")
	}
	if s.KeyFile != "" {
		parts = append(parts, "the key in "+s.KeyFile)
	}
	if s.ClientCert != "" {
		parts = append(parts, "certificate "+s.ClientCert)
	}
	return strings.Join(parts, ", ")
}

func newContextList() *cobra.Command {
	return shownVerb(&cobra.Command{
		Use:     "list",
		Short:   "List the contexts, without their keys",
		Example: `  belfry context list`,
	}, func(c *cli.Call, file *contexts.File) error {
		list := make([]shownContext, 0, len(file.Contexts))
		for _, name := range file.Names() {
			list = append(list, showContext(file, name, file.Contexts[name]))
		}
		if len(list) == 0 {
			c.Note("there is no context; belfry context set makes one")
			return nil
		}
		return output.ShowEach(c.Out, list, fillContexts)
	})
}

func fillContexts(t *output.Table, list []shownContext) {
	t.Columns("CURRENT", "NAME", "ADDRESSES", "NAMESPACE", "CREDENTIALS").Wide("CA").Add()
	for i := range list {
		s := &list[i]
		mark := ""
		if s.Current {
			mark = "*"
		}
		t.Cells(mark, s.Name, strings.Join(s.Addrs, ","), s.Namespace, s.credentials(), s.CA)
	}
}

func newContextShow() *cobra.Command {
	return shownVerb(&cobra.Command{
		Use:   "show [NAME]",
		Short: "Show a context, or the current one, without its key",
		Example: `  belfry context show
  belfry context show prod -o yaml`,
	}, func(c *cli.Call, file *contexts.File) error {
		name := cmp.Or(c.Arg(), file.Current)
		if name == "" {
			return errNoCurrent
		}
		found, err := file.Get(name)
		if err != nil {
			return err
		}
		return output.Show(c.Out, showContext(file, name, found), func(t *output.Table, s shownContext) {
			t.Field("name", s.Name)
			t.Field("current", map[bool]string{true: "yes", false: "no"}[s.Current])
			t.Field("addresses", strings.Join(s.Addrs, ", "))
			t.Field("namespace", s.Namespace)
			t.Field("credentials", s.credentials())
			t.Field("authority", s.CA)
			t.Field("file", file.Path())
		})
	})
}

var errNoCurrent = cli.WrongUsage(errors.New("there is no current context; belfry context use NAME chooses one"))

func newContextCurrent() *cobra.Command {
	return contextVerb(&cobra.Command{
		Use:     "current",
		Short:   "Print the name of the current context",
		Example: `  belfry context current`,
	}, func(c *cli.Call, file *contexts.File) error {
		if file.Current == "" {
			return errNoCurrent
		}
		_, err := fmt.Fprintln(c.Stdout(), file.Current)
		return err
	})
}

func newContextUse() *cobra.Command {
	var none bool
	cmd := contextVerb(&cobra.Command{
		Use:   "use [NAME]",
		Short: "Make a context the current one, for calls that name no address",
		Example: `  belfry context use prod
  belfry context use --none`,
	}, func(c *cli.Call, file *contexts.File) error {
		if none == (len(c.Args) > 0) {
			return cli.WrongUsage(errors.New("give either NAME or --none"))
		}
		file.Current = ""
		if !none {
			if _, err := file.Get(c.Args[0]); err != nil {
				return err
			}
			file.Current = c.Args[0]
		}
		return save(c, file, "%s", currentNote(file))
	})
	cmd.Flags().BoolVar(&none, "none", false, "have no current context")
	return cmd
}

// save keeps the contexts, and notes the change on the standard error.
func save(c *cli.Call, file *contexts.File, format string, args ...any) error {
	if err := file.Save(); err != nil {
		return err
	}
	c.Note(format, args...)
	return nil
}

// currentNote says which context is the current one.
func currentNote(file *contexts.File) string {
	if file.Current == "" {
		return "there is no current context now"
	}
	return "the current context is " + file.Current
}

func newContextRename() *cobra.Command {
	return contextVerb(&cobra.Command{
		Use:     "rename NAME NEW",
		Short:   "Give a context another name",
		Example: `  belfry context rename prod prod-eu`,
	}, func(c *cli.Call, file *contexts.File) error {
		if err := file.Rename(c.Args[0], c.Args[1]); err != nil {
			return cli.WrongUsage(err)
		}
		return save(c, file, "context %s is %s now", c.Args[0], c.Args[1])
	})
}

func newContextRemove() *cobra.Command {
	return contextVerb(&cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove a context, with the key that it has in the file",
		Example: `  belfry context remove prod`,
	}, func(c *cli.Call, file *contexts.File) error {
		if err := file.Remove(c.Args[0]); err != nil {
			return err
		}
		return save(c, file, "context %s is removed; %s", c.Args[0], currentNote(file))
	})
}

// contextFlags are the settings of a context, as given.
type contextFlags struct {
	c        contexts.Context
	keyStdin bool
}

func newContextSet() *cobra.Command {
	var f contextFlags
	cmd := contextVerb(&cobra.Command{
		Use:   "set NAME",
		Short: "Make a context, or change the given settings of one",
		Long: `Make a context, or change the given settings of one. The others stay as they
are. An empty value removes a setting.

With --key-stdin the key itself stands in the file of the contexts, which only
you can read. With --key-file its file is read at each call.

The first context becomes the current one.`,
		Example: `  belfry context set prod --addr https://n1:8400,https://n2:8400 \
    --ca ca.pem --key-stdin < prod.key
  belfry context set prod --namespace orders`,
	}, f.run)
	cli.AddContextFlags(cmd.Flags(), &f.c, nil)
	cmd.Flags().BoolVar(&f.keyStdin, "key-stdin", false,
		"read an API key or a token from the standard input, and keep it")
	return cmd
}

func (f *contextFlags) run(call *cli.Call, file *contexts.File) error {
	name := call.Args[0]
	if err := contexts.CheckName(name); err != nil {
		return cli.WrongUsage(err)
	}
	if f.keyStdin && f.c.KeyFile != "" {
		return cli.WrongUsage(errors.New("give one of --key-file and --key-stdin"))
	}
	c, err := file.Get(name)
	made := errors.Is(err, contexts.ErrUnknown)
	if made {
		c = &contexts.Context{}
		file.Contexts[name] = c
	}
	if err := f.change(call, c); err != nil {
		return err
	}
	if len(c.Addrs) == 0 {
		return cli.WrongUsage(errors.New("--addr is needed: the nodes of the cluster"))
	}
	if _, err := client.New(client.Config{Addrs: c.Addrs, Namespace: c.Namespace, FixedAddrs: true}); err != nil {
		return cli.WrongUsage(err)
	}
	if made && len(file.Contexts) == 1 {
		file.Current = name
	}
	return save(call, file, "context %s is kept in %s; %s", name, file.Path(), currentNote(file))
}

// change sets the given settings of a context. Names of files become absolute, since calls come from any folder.
func (f *contextFlags) change(call *cli.Call, c *contexts.Context) error {
	given := call.Given
	setGiven(given, &c.Addrs, "addr", f.c.Addrs)
	setGiven(given, &c.Namespace, "namespace", f.c.Namespace)
	for _, path := range []struct {
		flag string
		text string
		into *string
	}{
		{"key-file", f.c.KeyFile, &c.KeyFile}, {"ca", f.c.CA, &c.CA},
		{"client-cert", f.c.ClientCert, &c.ClientCert}, {"client-key", f.c.ClientKey, &c.ClientKey},
	} {
		if !given(path.flag) {
			continue
		}
		if *path.into = path.text; path.text == "" {
			continue
		}
		absolute, err := filepath.Abs(path.text)
		if err != nil {
			return err
		}
		*path.into = absolute
	}
	switch {
	case f.keyStdin:
		key, err := readKey(call)
		if err != nil {
			return err
		}
		c.Key, c.KeyFile = key, ""
	case given("key-file"):
		c.Key = contexts.Secret{}
	}
	return nil
}

// maxKey is the largest size of a key or token, in bytes.
const maxKey = 64 << 10

// readKey reads a key from the standard input, without an echo at a terminal.
func readKey(c *cli.Call) (contexts.Secret, error) {
	var text []byte
	var err error
	if file, ok := c.In().(*os.File); ok && cli.IsTerminal(file) {
		c.Command.PrintErr("key: ")
		text, err = term.ReadPassword(int(file.Fd()))
		c.Command.PrintErrln()
	} else {
		text, err = io.ReadAll(io.LimitReader(c.In(), maxKey))
	}
	if err != nil {
		return contexts.Secret{}, err
	}
	words := strings.Fields(string(text))
	if len(words) != 1 {
		return contexts.Secret{}, cli.WrongUsage(fmt.Errorf("--key-stdin: the standard input has %d words, and a key is one",
			len(words)))
	}
	return contexts.NewKey(words[0]), nil
}
