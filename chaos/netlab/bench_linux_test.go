package netlab

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// The ways of a stream between two ends.
const throughSwitch, throughKernel = true, false

// BenchmarkStream measures a stream between two hosts through the switch, and between a host and this process through
// the kernel alone. The processor time is that of this process, which has both ends of the connection. An idle network
// costs nothing.
func BenchmarkStream(b *testing.B) {
	b.Run("switch", func(b *testing.B) { stream(b, throughSwitch) })
	b.Run("kernel", func(b *testing.B) { stream(b, throughKernel) })
}

func BenchmarkPing(b *testing.B) {
	b.Run("switch", func(b *testing.B) { ping(b, throughSwitch) })
	b.Run("kernel", func(b *testing.B) { ping(b, throughKernel) })
}

// connect connects host b with host a through the switch, or with this process.
func connect(b *testing.B, bySwitch bool) (here, there net.Conn) {
	b.Helper()
	n := open(b, "a", "b")
	addr := n.Host("b").Addr
	if bySwitch {
		addr = n.Host("b").PeerAddr
	}
	l := listen(b, n, "b", addr)
	dial := func() (net.Conn, error) { return net.DialTimeout("tcp", l.Addr().String(), 10*time.Second) }
	var err error
	if bySwitch {
		here = runOn(b, n, "a", dial)
	} else if here, err = dial(); err != nil {
		b.Fatal(err)
	}
	there, err = l.Accept()
	assert.NoError(b, err)
	b.Cleanup(func() { _, _ = here.Close(), there.Close() })
	return here, there
}

func stream(b *testing.B, bySwitch bool) {
	here, there := connect(b, bySwitch)
	chunk := make([]byte, 1<<20)
	b.SetBytes(int64(len(chunk)))
	began := processorTime(b)
	b.ResetTimer()
	sent := make(chan error, 1)
	go func() {
		for range b.N {
			if _, err := here.Write(chunk); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	_, err := io.CopyN(io.Discard, there, int64(b.N)*int64(len(chunk)))
	assert.NoError(b, err)
	assert.NoError(b, <-sent)
	b.ReportMetric(float64(processorTime(b)-began)/float64(b.N), "cpu-ns/op")
}

func ping(b *testing.B, bySwitch bool) {
	here, there := connect(b, bySwitch)
	go func() { _, _ = io.Copy(there, there) }()
	message := make([]byte, 200)
	began := processorTime(b)
	b.ResetTimer()
	for b.Loop() {
		_, err := here.Write(message)
		assert.NoError(b, err)
		_, err = io.ReadFull(here, message)
		assert.NoError(b, err)
	}
	b.ReportMetric(float64(processorTime(b)-began)/float64(b.N), "cpu-ns/op")
}

// processorTime returns the processor time that this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	assert.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
