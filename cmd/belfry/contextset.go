package main

import (
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
	"github.com/belfryhq/belfry/cmd/belfry/internal/confirm"
	"github.com/belfryhq/belfry/cmd/belfry/internal/contexts"
)

// contextFlags are the settings of a context, as given.
type contextFlags struct {
	c        contexts.Context
	keyStdin bool
}

func newContextSet() *cobra.Command {
	var f contextFlags
	cmd := contextCommand(&cobra.Command{
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
	}, func(cmd *cobra.Command, file *contexts.File, args []string) error { return f.run(cmd, file, args[0]) })
	flags := cmd.Flags()
	flags.StringSliceVarP(&f.c.Addrs, "addr", "a", nil, "`nodes` of the cluster; the next is tried when one is down")
	flags.StringVarP(&f.c.Namespace, "namespace", "N", "", "`name` of the namespace (default: the key's)")
	flags.StringVar(&f.c.KeyFile, "key-file", "", "`file` with an API key or a token")
	flags.BoolVar(&f.keyStdin, "key-stdin", false, "read an API key or a token from the standard input, and keep it")
	flags.StringVar(&f.c.CA, "ca", "", "`file` with the authority of the nodes' certificates (default: the system's)")
	flags.StringVar(&f.c.ClientCert, "client-cert", "", "`file` with a certificate to show to the nodes")
	flags.StringVar(&f.c.ClientKey, "client-key", "", "`file` with the key of that certificate")
	return cmd
}

func (f *contextFlags) run(cmd *cobra.Command, file *contexts.File, name string) error {
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
	if err := f.change(cmd, c); err != nil {
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
	if err := file.Save(); err != nil {
		return err
	}
	cmd.PrintErrf("context %s is kept in %s; %s\n", name, file.Path(), currentNote(file))
	return nil
}

// change sets the given settings of a context. Names of files become absolute, since calls come from any folder.
func (f *contextFlags) change(cmd *cobra.Command, c *contexts.Context) error {
	given := cmd.Flags().Changed
	if given("addr") {
		c.Addrs = f.c.Addrs
	}
	if given("namespace") {
		c.Namespace = f.c.Namespace
	}
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
		key, err := readKey(cmd)
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
func readKey(cmd *cobra.Command) (contexts.Secret, error) {
	var text []byte
	var err error
	if file, ok := cmd.InOrStdin().(*os.File); ok && confirm.IsTerminal(file) {
		cmd.PrintErr("key: ")
		text, err = term.ReadPassword(int(file.Fd()))
		cmd.PrintErrln()
	} else {
		text, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxKey))
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
