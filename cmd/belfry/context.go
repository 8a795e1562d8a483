package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/contexts"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newContext() *cobra.Command {
	return group(&cobra.Command{
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

// contextCommand completes a command that calls no node.
func contextCommand(cmd *cobra.Command, run func(cmd *cobra.Command, file *contexts.File, args []string) error,
) *cobra.Command {
	cmd.Annotations = map[string]string{cli.Offline: ""}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, err := contexts.Load(contexts.Path(os.LookupEnv))
		if err != nil {
			return err
		}
		if err := run(cmd, file, args); errors.Is(err, contexts.ErrUnknown) {
			return cli.WrongUsage(err)
		} else if err != nil {
			return err
		}
		return nil
	}
	return cmd
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
	var form output.Flags
	cmd := contextCommand(&cobra.Command{
		Use:     "list",
		Short:   "List the contexts, without their keys",
		Example: `  belfry context list`,
	}, func(cmd *cobra.Command, file *contexts.File, _ []string) error {
		list := make([]shownContext, 0, len(file.Contexts))
		for _, name := range file.Names() {
			list = append(list, showContext(file, name, file.Contexts[name]))
		}
		if len(list) == 0 {
			cmd.PrintErrln("there is no context; belfry context set makes one")
			return nil
		}
		return output.ShowEach(cmd.OutOrStdout(), &form, list, func(t *output.Table) { fillContexts(t, list) })
	})
	form.Add(cmd)
	return cmd
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
	var form output.Flags
	cmd := contextCommand(&cobra.Command{
		Use:   "show [NAME]",
		Short: "Show a context, or the current one, without its key",
		Example: `  belfry context show
  belfry context show prod -o yaml`,
	}, func(cmd *cobra.Command, file *contexts.File, args []string) error {
		name := cmp.Or(optional(args), file.Current)
		if name == "" {
			return errNoCurrent
		}
		c, err := file.Get(name)
		if err != nil {
			return err
		}
		s := showContext(file, name, c)
		return form.Show(cmd.OutOrStdout(), s, func(t *output.Table) {
			t.Field("name", s.Name)
			t.Field("current", map[bool]string{true: "yes", false: "no"}[s.Current])
			t.Field("addresses", strings.Join(s.Addrs, ", "))
			t.Field("namespace", s.Namespace)
			t.Field("credentials", s.credentials())
			t.Field("authority", s.CA)
			t.Field("file", file.Path())
		})
	})
	form.Add(cmd)
	return cmd
}

var errNoCurrent = cli.WrongUsage(errors.New("there is no current context; belfry context use NAME chooses one"))

func newContextCurrent() *cobra.Command {
	return contextCommand(&cobra.Command{
		Use:     "current",
		Short:   "Print the name of the current context",
		Example: `  belfry context current`,
	}, func(cmd *cobra.Command, file *contexts.File, _ []string) error {
		if file.Current == "" {
			return errNoCurrent
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), file.Current)
		return err
	})
}

func newContextUse() *cobra.Command {
	var none bool
	cmd := contextCommand(&cobra.Command{
		Use:   "use [NAME]",
		Short: "Make a context the current one, for calls that name no address",
		Example: `  belfry context use prod
  belfry context use --none`,
	}, func(cmd *cobra.Command, file *contexts.File, args []string) error {
		if none == (len(args) > 0) {
			return cli.WrongUsage(errors.New("give either NAME or --none"))
		}
		file.Current = ""
		if !none {
			if _, err := file.Get(args[0]); err != nil {
				return err
			}
			file.Current = args[0]
		}
		if err := file.Save(); err != nil {
			return err
		}
		cmd.PrintErrln(currentNote(file))
		return nil
	})
	cmd.Flags().BoolVar(&none, "none", false, "have no current context")
	return cmd
}

// currentNote says which context is the current one.
func currentNote(file *contexts.File) string {
	if file.Current == "" {
		return "there is no current context now"
	}
	return "the current context is " + file.Current
}

func newContextRename() *cobra.Command {
	return contextCommand(&cobra.Command{
		Use:     "rename NAME NEW",
		Short:   "Give a context another name",
		Example: `  belfry context rename prod prod-eu`,
	}, func(cmd *cobra.Command, file *contexts.File, args []string) error {
		if err := file.Rename(args[0], args[1]); err != nil {
			return cli.WrongUsage(err)
		}
		if err := file.Save(); err != nil {
			return err
		}
		cmd.PrintErrf("context %s is %s now\n", args[0], args[1])
		return nil
	})
}

func newContextRemove() *cobra.Command {
	return contextCommand(&cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove a context, with the key that it has in the file",
		Example: `  belfry context remove prod`,
	}, func(cmd *cobra.Command, file *contexts.File, args []string) error {
		if err := file.Remove(args[0]); err != nil {
			return err
		}
		if err := file.Save(); err != nil {
			return err
		}
		cmd.PrintErrf("context %s is removed; %s\n", args[0], currentNote(file))
		return nil
	})
}
