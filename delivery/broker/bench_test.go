//go:build linux

package broker

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// BenchmarkServers measures confirmed messages from 256 attempts at a time, with the broker on the same machine. Except
// for Kafka's fake it needs real brokers, as TestNATSServer and similar tests do.
func BenchmarkServers(b *testing.B) {
	b.Run("nats", func(b *testing.B) {
		addr, _, _ := natsServer(b)
		natsStream(b, natsAdmin(b, addr), ordersStream)
		benchmark(b, "nats://"+addr, "{user: belfry, password: pass word}", "/orders.close")
	})
	b.Run("rabbitmq", func(b *testing.B) {
		addr, _, _, _ := rabbitServer(b)
		declare(b, rabbitAdmin(b, addr), "orders", nil)
		benchmark(b, "amqp://"+addr, "{user: belfry, password: pass word}", "/?queue=orders")
	})
	b.Run("redis", func(b *testing.B) {
		addr, _, _, _ := redisServer(b)
		benchmark(b, "redis://"+addr, "{password: secret}", "/?stream=orders")
	})
	b.Run("kfake", func(b *testing.B) {
		benchmark(b, newKafka(b).url("kafka", ""), "{}", "/orders")
	})
}

func benchmark(b *testing.B, broker, access, path string) {
	p := newPublisher(b, withFile(b, broker+": "+access))
	var n atomic.Uint64
	b.ReportAllocs()
	b.SetParallelism(128)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := n.Add(1)
			a := attemptOf(broker+path, func(t *fsmpb.Task) { t.WebhookId, t.Fence = fmt.Sprint("w-", i), i })
			if out := p.Deliver(b.Context(), a); !out.Delivered {
				b.Error(out.Error)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}
