package cli

import (
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/cmd/belfry/internal/contexts"
)

// contextValue is the value of --context. It leads from the flags of a command to its connection.
type contextValue struct{ conn *Connection }

func (v *contextValue) String() string {
	if v.conn == nil {
		return ""
	}
	return v.conn.context
}

func (v *contextValue) Type() string { return "string" }

func (v *contextValue) Set(name string) error {
	v.conn.context = name
	return nil
}

// applyContext fills the unset flags of a connection from a context: by the name in --context or its variable, or else
// from the current one. The current one is for calls without an address, so that its key goes to no other cluster. An
// empty name means no context.
func applyContext(flags *pflag.FlagSet, lookupEnv func(string) (string, bool)) error {
	f := flags.Lookup("context")
	if f == nil {
		return nil
	}
	value, ok := f.Value.(*contextValue)
	name, named := f.Value.String(), f.Changed
	if !ok || named && name == "" || !named && flags.Changed("addr") {
		return nil
	}
	file, err := contexts.Load(contexts.Path(lookupEnv))
	if err != nil {
		return err
	}
	if !named {
		name = file.Current
	}
	if name == "" {
		return nil
	}
	c, err := file.Get(name)
	if err != nil {
		return err
	}
	key, _ := lookupEnv(KeyVariable)
	return value.conn.use(flags, c, key != "")
}

// use fills the unset flags from a context. A certificate and its key come from one place, and so
// does the API key: hasKey reports whether the environment has one.
func (c *Connection) use(flags *pflag.FlagSet, from *contexts.Context, hasKey bool) error {
	set := func(name, value string) error {
		if value == "" || flags.Changed(name) {
			return nil
		}
		return flags.Set(name, value)
	}
	if list, ok := flags.Lookup("addr").Value.(pflag.SliceValue); ok && len(from.Addrs) > 0 && !flags.Changed("addr") {
		flags.Lookup("addr").Changed = true
		if err := list.Replace(from.Addrs); err != nil {
			return err
		}
	}
	values := [][2]string{{"namespace", from.Namespace}, {"ca", from.CA}}
	if !flags.Changed("client-cert") && !flags.Changed("client-key") {
		values = append(values, [2]string{"client-cert", from.ClientCert}, [2]string{"client-key", from.ClientKey})
	}
	if !flags.Changed("key-file") && !hasKey {
		c.key = from.Key.Secret
		values = append(values, [2]string{"key-file", from.KeyFile})
	}
	for _, v := range values {
		if err := set(v[0], v[1]); err != nil {
			return err
		}
	}
	return nil
}
