package netlab

import (
	"io"
	"net"
	"os/exec"
	"slices"
	"testing"
)

func open(t *testing.T, cfg Config) *Network {
	t.Helper()
	if err := Supported(); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func run(t *testing.T, h Host, command ...string) string {
	t.Helper()
	all := slices.Concat(h.Command, command)
	out, err := exec.CommandContext(t.Context(), all[0], all[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", all, err, out)
	}
	return string(out)
}

// A process on a host reaches this one by the address that all hosts know.
func TestHostsReachOutside(t *testing.T) {
	n := open(t, Config{Hosts: []string{"a", "b"}})
	l, err := net.Listen("tcp", net.JoinHostPort(n.Outside().String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "here")
			_ = conn.Close()
		}
	}()
	for _, name := range []string{"a", "b"} {
		said := run(t, n.Host(name), "bash", "-c", "cat < /dev/tcp/"+n.Outside().String()+"/"+port)
		if said != "here" {
			t.Errorf("%s got %q", name, said)
		}
	}
}
