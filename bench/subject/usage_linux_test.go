package subject

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func usage(t *testing.T, pid int) Usage {
	t.Helper()
	all, err := UsageOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func TestUsageOfThisProcess(t *testing.T) {
	const size = 64 << 20
	before := usage(t, os.Getpid())
	ballast := make([]byte, size)
	for i := range ballast {
		ballast[i] = 1
	}
	for began := time.Now(); time.Since(began) < 100*time.Millisecond; {
		ballast[0]++
	}
	after := usage(t, os.Getpid())
	if grown := after.RSS - before.RSS; grown < size/2 || grown > 4*size {
		t.Errorf("%d bytes were touched, and RSS grew by %d", size, grown)
	}
	if after.CPU <= before.CPU {
		t.Errorf("CPU time %v, then %v", before.CPU, after.CPU)
	}
	_ = ballast[size-1]
}

// A server that does nothing itself and lets a child work uses what the child uses.
func TestUsageCountsDescendants(t *testing.T) {
	p := run(t, `(while :; do :; done) & echo $! > pid; mv pid ready; wait`)
	data, err := os.ReadFile(p.command.Dir + "/ready")
	if err != nil {
		t.Fatal(err)
	}
	worker, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		own, both := usage(t, worker), usage(t, p.PIDs()[0])
		if both.CPU >= own.CPU && own.CPU > 0 && both.RSS > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the worker uses %+v, all use %+v", own, both)
		}
	}
}

func TestUsageOfNobody(t *testing.T) {
	if _, err := UsageOf(1 << 30); err == nil || !gone(err) {
		t.Errorf("error %v", err)
	}
}
