package main

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/contexts"
	"github.com/belfryhq/belfry/internal/assert"
)

// inContexts lets a test keep contexts in a file of its own, and returns the file.
func inContexts(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "belfry", "contexts.yaml")
	t.Setenv(contexts.PathVariable, path)
	return path
}

// mustRun runs a command line with an input, and returns its outputs.
func mustRun(t *testing.T, stdin string, args ...string) (out, notes string) {
	t.Helper()
	out, notes, err := ranWith(t.Context(), strings.NewReader(stdin), args...)
	if err != nil {
		t.Fatalf("belfry %s: %v\n%s%s", strings.Join(args, " "), err, out, notes)
	}
	return out, notes
}

// lastCall is the last request to a server.
type lastCall struct{ url, path, key string }

func serveLast(t *testing.T) *lastCall {
	t.Helper()
	a := &lastCall{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.path, a.key = r.URL.Path, r.Header.Get("Authorization")
		_, _ = io.WriteString(w, taskJSON)
	}))
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

// Each setting comes from the nearest place: flag, environment variable, context. The current context is for calls
// without an address, and a named one for its call.
func TestContextPrecedence(t *testing.T) {
	inContexts(t)
	prod, test, other := serveLast(t), serveLast(t), serveLast(t)
	key := filepath.Join(t.TempDir(), "file.key")
	assert.NoError(t, os.WriteFile(key, []byte("in-file"), 0o600))
	mustRun(t, "prod-key\n", "context", "set", "prod", "--addr", prod.url, "--namespace", "orders", "--key-stdin")
	mustRun(t, "", "context", "set", "test", "--addr", test.url, "--key-file", key)
	const short, inOrders, inBills = "/v1/tasks/a", "/v1/namespaces/orders/tasks/a", "/v1/namespaces/bills/tasks/a"
	for _, tt := range []struct {
		line, env string
		at        *lastCall
		path, key string
	}{
		{"", "", prod, inOrders, "Bearer prod-key"}, // the first one became the current one
		{"--context test", "", test, short, "Bearer in-file"},
		{"", "BELFRY_CONTEXT=test", test, short, "Bearer in-file"},
		{"--context prod", "BELFRY_CONTEXT=test", prod, inOrders, "Bearer prod-key"},
		{"-N bills", "", prod, inBills, "Bearer prod-key"},
		{"", "BELFRY_NAMESPACE=bills", prod, inBills, "Bearer prod-key"},
		{"-N orders", "BELFRY_NAMESPACE=bills", prod, inOrders, "Bearer prod-key"},
		{"--key-file " + key, "", prod, inOrders, "Bearer in-file"},
		{"", "BELFRY_KEY=in-env", prod, inOrders, "Bearer in-env"},
		{"--context test", "BELFRY_KEY=in-env", test, short, "Bearer in-env"},
		{"", "BELFRY_KEY_FILE=" + key, prod, inOrders, "Bearer in-file"},
		{"--addr " + other.url, "", other, short, ""}, // the key of the current context goes to no other cluster
		{"", "BELFRY_ADDR=" + other.url, other, short, ""},
		{"--context prod --addr " + other.url, "", other, inOrders, "Bearer prod-key"}, // unless the call says so
	} {
		t.Run(tt.line+" "+tt.env, func(t *testing.T) {
			if name, value, set := strings.Cut(tt.env, "="); set {
				t.Setenv(name, value)
			}
			*tt.at = lastCall{url: tt.at.url}
			mustRun(t, "", append([]string{"task", "get", "a"}, strings.Fields(tt.line)...)...)
			if tt.at.path != tt.path || tt.at.key != tt.key {
				t.Errorf("asked for %s with %q, want %s with %q", tt.at.path, tt.at.key, tt.path, tt.key)
			}
			*tt.at = lastCall{url: tt.at.url}
			mustRun(t, "", slices.Concat([]string{"__complete", "task", "get"}, strings.Fields(tt.line), []string{""})...)
			if list := strings.TrimSuffix(tt.path, "/a"); tt.at.path != list || tt.at.key != tt.key {
				t.Errorf("completion asked for %s with %q, want %s with %q", tt.at.path, tt.at.key, list, tt.key)
			}
		})
	}
}

// An empty name means no context: the call goes to the default address.
func TestNoContext(t *testing.T) {
	inContexts(t)
	prod := serveLast(t)
	mustRun(t, "", "context", "set", "prod", "--addr", prod.url)
	out, code := belfry(t, "task", "get", "a", "--context", "", "--addr", "127.0.0.1:1", "--timeout", "1ms")
	if code == 0 || prod.path != "" {
		t.Errorf("%d, asked for %s\n%s", code, prod.path, out)
	}
}

// A context sets the connection of the commands that call a cluster. It sets no other flag of theirs, and none of
// another command.
func TestContextsReachOnlyConnections(t *testing.T) {
	inContexts(t)
	mustRun(t, "", "context", "set", "prod", "--addr", "http://prod.example:8400", "--namespace", "orders", "--ca", "ca",
		"--client-cert", "cert", "--client-key", "key", "--key-file", "k")
	connection := []string{"addr", "namespace", "ca", "client-cert", "client-key", "key-file"}
	eachCommand(newRoot(), func(cmd *cobra.Command) {
		if cmd.InheritedFlags(); cmd.HasSubCommands() {
			return // the command has no settings
		}
		if err := cli.Apply(cmd, os.LookupEnv); err != nil {
			t.Fatalf("%s: %v", cmd.CommandPath(), err)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if want := cli.IsCall(cmd) && slices.Contains(connection, f.Name); f.Changed != want {
				t.Errorf("the context sets --%s of %s: %v, want %v", f.Name, cmd.CommandPath(), f.Changed, want)
			}
		})
	})
}

// No command prints the key of a context, in any form.
func TestContextsHideTheirKeys(t *testing.T) {
	path := inContexts(t)
	const key = "bfy_very_secret"
	printed := ""
	run := func(stdin string, args ...string) {
		out, notes := mustRun(t, stdin, args...)
		printed += out + notes
	}
	run(key+"\n", "context", "set", "prod", "--addr", "n1:8400", "--key-stdin")
	for _, form := range []string{"table", "wide", "json", "yaml"} {
		run("", "context", "list", "-o", form)
		run("", "context", "show", "-o", form)
	}
	run("", "context", "current")
	run("", "context", "rename", "prod", "prod-eu")
	if strings.Contains(printed, key) || !strings.Contains(printed, "a key in this file") ||
		!strings.Contains(printed, `"has_key":true`) {
		t.Errorf("printed\n%s", printed)
	}
	kept, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(kept), key) {
		t.Errorf("the file has not the key: %v\n%s", err, kept)
	}
}

// The verbs of contexts change the file, and refuse names and settings that no context can have.
func TestContextVerbs(t *testing.T) {
	path := inContexts(t)
	for _, step := range []struct {
		line, want string
		code       int
	}{
		{"context list", "there is no context; belfry context set makes one", 0},
		{"context current", "there is no current context", exitUsage},
		{"context set a", "--addr is needed", exitUsage},
		{"context set a --addr ftp://x", "ftp", exitUsage},
		{"context set a/b --addr n1:8400", "is no name of a context", exitUsage},
		{"context set a --addr n1:8400,n2:8400 --ca ca.pem", "the current context is a", 0},
		{"context set b --addr n3:8400", "the current context is a", 0},
		{"context current", "a\n", 0},
		{"context use b", "the current context is b", 0},
		{"context use c", `there is no context "c"; belfry context list names those there are`, exitUsage},
		{"context list", "*        b     n3:8400", 0},
		{"context list --no-headers", "n1:8400,n2:8400", 0},
		{"context set a --namespace orders", "kept", 0},
		{"context show a -o yaml", "addrs:\n  - n1:8400\n  - n2:8400\nnamespace: orders\n", 0},
		{"context rename a b", "there is a context \"b\" already", exitUsage},
		{"context rename b c", "context b is c now", 0},
		{"context current", "c\n", 0},
		{"context remove c", "there is no current context now", 0},
		{"context remove c", `there is no context "c"`, exitUsage},
		{"task get x --context c", `there is no context "c"`, exitUsage},
		{"context use --none", "there is no current context now", 0},
		{"context use", "give either NAME or --none", exitUsage},
		{"context set a --key-file k --key-stdin", "give one of --key-file and --key-stdin", exitUsage},
		{"context set a --key-stdin", "has 2 words, and a key is one", exitUsage},
	} {
		out, code := belfry(t, strings.Fields(step.line)...)
		if code != step.code || !strings.Contains(out, step.want) {
			t.Errorf("belfry %s: %d, want %d and %q\n%s", step.line, code, step.code, step.want, out)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
}

// Every call refuses a file that other users can read, with the remedy, unless it needs no context.
func TestContextsOfOthersAreRefused(t *testing.T) {
	path := inContexts(t)
	prod := serveLast(t)
	mustRun(t, "k", "context", "set", "prod", "--addr", prod.url, "--key-stdin")
	assert.NoError(t, os.Chmod(path, 0o640))
	for _, line := range []string{"task get a", "context list", "context set b --addr n1:8400", "task get a --context prod"} {
		out, code := belfry(t, strings.Fields(line)...)
		if code == 0 || !strings.Contains(out, "chmod 600 "+path) || prod.key != "" {
			t.Errorf("belfry %s: %d\n%s", line, code, out)
		}
	}
	mustRun(t, "", "task", "get", "a", "--addr", prod.url)
}

// A variable belongs to one command. Commands that call a cluster take only their connection from the environment.
func TestVariables(t *testing.T) {
	owners := map[string]string{}
	connection := map[string]string{"addr": "BELFRY_ADDR", "key-file": "BELFRY_KEY_FILE", "ca": "BELFRY_CA",
		"client-cert": "BELFRY_CLIENT_CERT", "client-key": "BELFRY_CLIENT_KEY", "namespace": "BELFRY_NAMESPACE", "context": "BELFRY_CONTEXT"}
	eachCommand(newRoot(), func(cmd *cobra.Command) {
		if cmd.InheritedFlags(); cmd.HasSubCommands() {
			return // the command has no settings
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			name := cli.Variable(cmd, f)
			switch {
			case cli.IsCall(cmd):
				if want := connection[f.Name]; name != want {
					t.Errorf("%s sets --%s of %s", name, f.Name, cmd.CommandPath())
				}
			case name == "":
				if cli.Settable(f) {
					t.Errorf("no variable sets --%s of %s", f.Name, cmd.CommandPath())
				}
			case owners[name] != "" || isConnection(connection, name):
				t.Errorf("%s sets a flag of %s and of %s", name, owners[name], cmd.CommandPath())
			default:
				owners[name] = cmd.CommandPath()
			}
		})
	})
	for name, want := range map[string]string{
		"BELFRY_SERVE_DATA": "belfry serve", "BELFRY_DEMO_DATA": "belfry demo", "BELFRY_LOCAL_HTTP_PORT": "belfry local",
		"BELFRY_LISTEN_ADDR": "belfry listen", "BELFRY_SERVE_CONFIG": "belfry serve", "BELFRY_DATA": "",
		"BELFRY_QUEUE_SET_PAUSED": "", "BELFRY_PAUSED": "",
	} {
		assert.Equal(t, owners[name], want, "%s belongs to", name)
	}
}

// isConnection reports whether a variable belongs to all commands that call a cluster.
func isConnection(connection map[string]string, name string) bool {
	return name == cli.KeyVariable || slices.Contains(slices.Collect(maps.Values(connection)), name)
}

// The address of a cluster in the environment reaches the calls, and --addr wins over it.
func TestAddressFromTheEnvironment(t *testing.T) {
	s, other := serveOne(t, 200, taskJSON), serveOne(t, 404, `{"type":"urn:belfry:problem:task-not-found"}`)
	t.Setenv(cli.AddrVariable, s.url)
	if out, code := belfry(t, "task", "get", "a"); code != 0 || s.uri != "/v1/tasks/a" {
		t.Errorf("%d, asked for %s\n%s", code, s.uri, out)
	}
	out, code := belfry(t, "task", "get", "a", "-a", other.url)
	assert.Equal(t, code, exitNotFound, "%s", out)
	listen, _, err := newRoot().Find([]string{"listen"})
	assert.NoError(t, err)
	listen.InheritedFlags() // adds --config
	if err := cli.Apply(listen, os.LookupEnv); err != nil || listen.Flag("addr").Changed {
		t.Errorf("belfry listen listens at %s, %v", listen.Flag("addr").Value, err)
	}
}
