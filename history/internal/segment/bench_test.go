package segment

import (
	"fmt"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/internal/assert"
)

// BenchmarkCodec compares codecs on a block of 64 KiB whose tasks have random ids.
func BenchmarkCodec(b *testing.B) {
	raw := batch(tasks(400)).raw
	for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedDefault} {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1))
		assert.NoError(b, err)
		r, err := zstd.NewReader(nil)
		assert.NoError(b, err)
		compare(b, "zstd-"+level.String(), raw, func(p []byte) []byte { return w.EncodeAll(p, nil) },
			func(p []byte) ([]byte, error) { return r.DecodeAll(p, make([]byte, 0, len(raw))) })
	}
	decode := func(p []byte) ([]byte, error) { return s2.Decode(nil, p) }
	compare(b, "s2", raw, func(p []byte) []byte { return s2.Encode(nil, p) }, decode)
	compare(b, "s2-better", raw, func(p []byte) []byte { return s2.EncodeBetter(nil, p) }, decode)
}

func compare(b *testing.B, name string, raw []byte, encode func([]byte) []byte, decode func([]byte) ([]byte, error)) {
	packed := encode(raw)
	b.Run(name+"/encode", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			packed = encode(raw)
		}
		b.ReportMetric(float64(len(raw))/float64(len(packed)), "ratio")
	})
	b.Run(name+"/decode", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			_, err := decode(packed)
			assert.NoError(b, err)
		}
	})
}

func tasks(n int) []*historypb.Event {
	all := make([]*historypb.Event, n)
	for i := range all {
		all[i] = &historypb.Event{
			Shard: 3, Index: uint64(i / 20), Number: uint32(i % 20), AtMs: 1_800_000_000_000 + int64(i/20),
			Type: historypb.Type_TYPE_FIRED, Namespace: fmt.Sprintf("tenant-%d", i%20),
			Task: fmt.Sprintf("order-%016x", uint64(TaskKey("id", fmt.Sprint(i)))), Queue: fmt.Sprintf("queue-%d", i%7),
			DueMs: 1_800_000_000_000 + int64(i%300), LatenessMs: int64(i % 40), Attempt: 1, Node: "node-2",
			WebhookId: fmt.Sprintf("msg_%016x", uint64(TaskKey("wh", fmt.Sprint(i)))),
			Labels:    []*historypb.Label{{Name: "region", Value: "eu-west"}, {Name: "kind", Value: fmt.Sprint(i % 5)}},
		}
	}
	return all
}
