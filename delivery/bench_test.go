package delivery

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// benchReceiver answers 204 with as little work as HTTP allows, so that the benchmark measures the sender.
func benchReceiver(b *testing.B) string {
	return "http://" + listen(b, func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			write(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
}

// BenchmarkDeliver includes the receiver: its allocations are those of both sides.
func BenchmarkDeliver(b *testing.B) {
	w := newWebhook(b)
	a := attemptOf(benchReceiver(b))
	b.Run("one at a time", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if out := w.Deliver(b.Context(), a); !out.Delivered {
				b.Fatal(out.Error)
			}
		}
	})
	b.Run("64 at a time", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if out := w.Deliver(b.Context(), a); !out.Delivered {
					b.Fatal(out.Error)
				}
			}
		})
	})
}

// BenchmarkDeliverBatch sends a hundred signed tasks in each request. Times and allocations are per request.
func BenchmarkDeliverBatch(b *testing.B) {
	const n = 100
	w := newWebhook(b)
	batch := batchOf(benchReceiver(b), n)
	batch[0].Secrets = [][]byte{secretOf(b, secretA)}
	b.ReportAllocs()
	for b.Loop() {
		if out := w.DeliverBatch(b.Context(), batch); !out[n-1].Delivered {
			b.Fatal(out[n-1].Error)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/task")
}

func BenchmarkHeaders(b *testing.B) {
	a := attemptOf("http://127.0.0.1/")
	b.ReportAllocs()
	for b.Loop() {
		headers(a, "dev", time.Unix(1, 0))
	}
}

func BenchmarkCheckURL(b *testing.B) {
	g := NewGuard(loopback)
	b.ReportAllocs()
	for b.Loop() {
		if err := g.CheckURL("https://shop.example/close"); err != nil {
			b.Fatal(err)
		}
	}
}
