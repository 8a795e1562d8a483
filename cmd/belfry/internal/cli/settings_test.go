package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
	"github.com/belfryhq/belfry/internal/assert"
)

// testCommand is a command for `belfry run`.
func testCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "run"}
	flags := cmd.Flags()
	flags.String("config", "", "")
	flags.String("data-dir", "default", "")
	flags.Int("shards", 12, "")
	flags.Duration("max-offset", time.Second, "")
	flags.StringSlice("join", nil, "")
	flags.Bool("json", false, "")
	(&cobra.Command{Use: "belfry"}).AddCommand(cmd)
	return cmd
}

func testFlags() *pflag.FlagSet { return testCommand().Flags() }

func TestNearerWins(t *testing.T) {
	env := map[string]string{"BELFRY_RUN_SHARDS": "2", "BELFRY_RUN_DATA_DIR": "env", "BELFRY_MAX_OFFSET": "4s"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	cmd := testCommand()
	flags := cmd.Flags()
	assert.NoError(t, flags.Parse([]string{"--shards", "1"}))
	assert.NoError(t, applyEnv(cmd, lookup))
	assert.NoError(t, applyFile(flags, "f", []byte("shards: 3\ndata-dir: file\nmax-offset: 3s\n")))
	for name, want := range map[string]string{
		"shards": "1", "data-dir": "env", "max-offset": "3s", "json": "false",
	} {
		assert.Equal(t, flags.Lookup(name).Value.String(), want, "%s", name)
	}
}

// --json and --output set one value: a variable or a file that sets one of them does not win over the other one of the
// command line.
func TestPeersShareTheNearestValue(t *testing.T) {
	for line, want := range map[string]string{"-o yaml": "yaml", "--json": "json", "": "json"} {
		cmd := &cobra.Command{Use: "show"}
		cmd.Flags().String("config", "", "")
		new(output.Printer).AddFlags(cmd)
		(&cobra.Command{Use: "belfry"}).AddCommand(cmd)
		assert.NoError(t, cmd.Flags().Parse(strings.Fields(line)))
		lookup := func(name string) (string, bool) { return "true", name == "BELFRY_SHOW_JSON" }
		assert.NoError(t, applyEnv(cmd, lookup))
		assert.NoError(t, applyFile(cmd.Flags(), "f", []byte("output: wide\n")))
		assert.Equal(t, cmd.Flags().Lookup("output").Value.String(), want, "%q", line)
	}
}

func TestLists(t *testing.T) {
	want := []string{"a:1", "b:2"}
	for _, file := range []string{"join: [a:1, b:2]", "join:\n- a:1\n- b:2\n"} {
		flags := testFlags()
		assert.NoError(t, applyFile(flags, "f", []byte(file)))
		if got, err := flags.GetStringSlice("join"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", file, got, err)
		}
	}
	cmd := testCommand()
	lookup := func(name string) (string, bool) { return "a:1,b:2", name == "BELFRY_RUN_JOIN" }
	assert.NoError(t, applyEnv(cmd, lookup))
	if got, err := cmd.Flags().GetStringSlice("join"); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	tests := []struct{ file, want string }{
		{"data-dir: x\nshard: 3\n", `f:2: unknown setting "shard"`},
		{"config: g\n", `unknown setting "config"`},
		{"shards: 3\nshards: 4\n", `f:2: "shards" is there twice`},
		{"shards: many\n", `"shards": "many" is not a whole number`},
		{"shards: [1, 2]\n", `"shards": takes one value`},
		{"shards: [1]\n", `"shards": takes one value`},
		{"data-dir: {a: b}\n", "neither a value nor a list"},
		{"join: [[a]]\n", "a list of anything but plain values"},
		{"- a\n", "f:1: not a mapping"},
		{"a: [\n", "f: yaml"},
	}
	for _, tt := range tests {
		err := applyFile(testFlags(), "f", []byte(tt.file))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.file, err, tt.want)
		}
	}
	for _, file := range []string{"", "# nothing\n"} {
		assert.Equal(t, applyFile(testFlags(), "f", []byte(file)), nil, "%q", file)
	}
}

func TestVariablesThatAreRefused(t *testing.T) {
	lookup := func(name string) (string, bool) { return "many", name == "BELFRY_RUN_SHARDS" }
	err := applyEnv(testCommand(), lookup)
	if err == nil || err.Error() != `BELFRY_RUN_SHARDS "many" is not a whole number` {
		t.Errorf("%v", err)
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("shards: 3\njoin: [a, b]\n"))
	f.Add([]byte("a: &x [*x]\n"))
	f.Add([]byte(""))
	f.Add([]byte("- shards\n"))
	f.Add([]byte("shards: [\n"))
	f.Add([]byte("shards: {a: b}\nno-such: 1\n"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_ = applyFile(testFlags(), "f", data) // it must refuse, not panic
	})
}
