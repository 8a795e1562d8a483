package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
)

var self = nodeID(1)

func idOf(t *rapid.T, label string) []byte {
	if rapid.Bool().Draw(t, label+"-own") {
		return []byte(self)
	}
	return bytesOf(t, label, 20)
}

// bytesOf returns nil or bytes, never an empty slice: the wire does not distinguish the two.
func bytesOf(t *rapid.T, label string, most int) []byte {
	if b := rapid.SliceOfN(rapid.Byte(), 0, most).Draw(t, label); len(b) > 0 {
		return b
	}
	return nil
}

func entryOf(t *rapid.T) *raft.Log {
	e := &raft.Log{
		Index: rapid.Uint64().Draw(t, "index"), Term: rapid.Uint64().Draw(t, "entry-term"),
		Type: raft.LogType(rapid.Uint8().Draw(t, "type")), Extensions: bytesOf(t, "extensions", 10),
	}
	if rapid.Bool().Draw(t, "stamped") {
		e.AppendedAt = time.Unix(rapid.Int64Range(-yearOne, math.MaxInt32).Draw(t, "s"),
			rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
	}
	if n := rapid.SampledFrom([]int{0, 1, 300, byReference - 1, byReference, 3 * byReference, trusted + 7}).Draw(t, "size"); n > 0 {
		e.Data = bytes.Repeat([]byte{byte(n)}, n)
		e.Data[n/2]++
	}
	return e
}

func requestOf(t *rapid.T) *raft.AppendEntriesRequest {
	r := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersion(rapid.IntRange(-1, 5).Draw(t, "protocol")),
			ID:              idOf(t, "id"), Addr: idOf(t, "addr"),
		},
		Term:         rapid.Uint64().Draw(t, "term"),
		PrevLogEntry: rapid.Uint64().Draw(t, "prev"), PrevLogTerm: rapid.Uint64().Draw(t, "prev-term"),
		LeaderCommitIndex: rapid.Uint64().Draw(t, "commit"),
	}
	for range rapid.IntRange(0, 4).Draw(t, "entries") {
		r.Entries = append(r.Entries, entryOf(t))
	}
	return r
}

// written returns the bytes that a batch writes to a connection.
func written(t testing.TB, b *batch) []byte {
	t.Helper()
	here, there := net.Pipe()
	done := begin(func() error { return errors.Join(b.writeTo(here), here.Close()) })
	got, err := io.ReadAll(there)
	assert.NoError(t, errors.Join(err, <-done))
	if len(got) != b.bytes() {
		t.Fatalf("wrote %d bytes of %d", len(got), b.bytes())
	}
	return got
}

// Several requests that leave with one write arrive unchanged.
func TestRequestsArriveAsTheyWere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sent := rapid.SliceOfN(rapid.Custom(requestOf), 1, 3).Draw(rt, "requests")
		var b batch
		for i, r := range sent {
			assert.NoError(rt, appendRequest(&b, uint32(i)<<30, uint64(i), self, r))
		}
		r := newRequestReader(bytes.NewReader(written(t, &b)), Header{From: self, Traffic: entries})
		for i, want := range sent {
			got, err := r.next()
			if err == nil {
				err = readEntries(r.Reader, got)
			}
			assert.NoError(rt, err)
			if got.group != uint32(i)<<30 || got.number != uint64(i) || got.data != dataBytes(want) {
				rt.Fatalf("request %d is %+v", i, got)
			}
			if !reflect.DeepEqual(got.rpc, want) {
				rt.Fatalf("sent %+v, got %+v", want, got.rpc)
			}
		}
		if _, err := r.next(); !errors.Is(err, io.EOF) {
			rt.Fatalf("after all: %v", err)
		}
	})
}

func TestAnswersArriveAsTheyWere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := raft.AppendEntriesResponse{
			RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: idOf(rt, "id"), Addr: idOf(rt, "addr")},
			Term:      rapid.Uint64().Draw(rt, "term"), LastLog: rapid.Uint64().Draw(rt, "last"),
			Success: rapid.Bool().Draw(rt, "success"), NoRetryBackoff: rapid.Bool().Draw(rt, "no-backoff"),
		}
		var b batch
		appendAnswer(&b, 7, self, &want, nil)
		appendAnswer(&b, 8, self, nil, errors.New(strings.Repeat("e", 5000)))
		appendAnswer(&b, 9, self, nil, errors.New(""))
		r := bufio.NewReaderSize(bytes.NewReader(written(t, &b)), lengthBytes+maxAnswer)
		for number := uint64(7); number <= 9; number++ {
			var got answer
			err := readHead(r, maxAnswer, func(head []byte) error {
				var err error
				got, err = parseAnswer(head, []byte(self))
				return err
			})
			if err != nil || got.number != number {
				rt.Fatalf("answer %d is %+v, %v", number, got, err)
			}
			if ok := got.err == nil; ok != (number == 7) || ok && !reflect.DeepEqual(got.resp, want) {
				rt.Fatalf("answer %d is %+v", number, got)
			}
		}
	})
}

// A reset batch keeps no reference to the data that it has sent.
func TestResetBatchIsEmpty(t *testing.T) {
	var b batch
	for range 3 {
		for _, n := range []int{10, 2 * keptBuffer, 10} {
			b.add(make([]byte, n))
		}
		b.add(make([]byte, byReference-1))
		written(t, &b)
		b.reset()
		if b.bytes() != 0 || len(b.cuts) != 0 || b.cuts[:1][0].data != nil || cap(b.buf) > keptBuffer {
			t.Fatalf("not empty: %+v", b)
		}
		for _, part := range b.parts[:cap(b.parts)] {
			if part != nil {
				t.Fatal("a part is kept")
			}
		}
	}
}

func TestRequestsOverTheLimitsAreNotSent(t *testing.T) {
	huge := &raft.AppendEntriesRequest{}
	for range 3 {
		huge.Entries = append(huge.Entries, &raft.Log{Data: make([]byte, maxData/2)})
	}
	many := &raft.AppendEntriesRequest{Entries: make([]*raft.Log, maxEntries+1)}
	long := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ID: make([]byte, maxHead)}}
	for _, c := range []struct {
		request *raft.AppendEntriesRequest
		want    string
	}{{huge, "67108864"}, {many, "1024"}, {long, "65536"}} {
		b := batch{buf: []byte("before")}
		if err := appendRequest(&b, 1, 1, self, c.request); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want a limit of %s: %v", c.want, err)
		}
		if string(b.buf) != "before" || len(b.cuts) != 0 {
			t.Error("something of it is left")
		}
	}
	full := &raft.AppendEntriesRequest{}
	data := make([]byte, byReference)
	for range maxEntries {
		full.Entries = append(full.Entries, &raft.Log{
			Index: math.MaxUint64, Term: math.MaxUint64, Type: math.MaxUint8, Data: data, Extensions: data, AppendedAt: time.Unix(math.MinInt32, 999_999_999),
		})
	}
	if err := appendRequest(&batch{}, math.MaxUint32, math.MaxUint64, self, full); err != nil {
		t.Errorf("as many entries as there may be: %v", err)
	}
}

// Fields of another build are skipped.
func TestUnknownFieldsAreSkipped(t *testing.T) {
	head := appendUint(nil, termField, 5)
	head = appendUint(head, 1000, 5)
	head = protowire.AppendTag(head, 1001, protowire.Fixed64Type)
	head = protowire.AppendFixed64(head, 5)
	head = appendBytes(head, 1002, []byte("more"))
	head = appendUint(head, numberField, 9)
	r, err := parseRequest(head, nil, nil)
	if err != nil || r.rpc.Term != 5 || r.number != 9 {
		t.Errorf("%+v, %v", r, err)
	}
	a, err := parseAnswer(head, nil)
	if err != nil || a.number != 9 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	entry := func(fill func([]byte) []byte) []byte { return appendBytes(nil, entriesField, fill(nil)) }
	for name, head := range map[string][]byte{
		"half a field":   {0x08},
		"a large group":  appendUint(nil, groupField, 1<<32),
		"a large type":   entry(func(b []byte) []byte { return appendUint(b, entryTypeField, 256) }),
		"much data":      entry(func(b []byte) []byte { return appendUint(b, entryDataField, maxData+1) }),
		"overflow":       entry(func(b []byte) []byte { return appendUint(b, entryExtensionsField, math.MaxUint64) }),
		"a long second":  entry(func(b []byte) []byte { return appendUint(b, entryNanosField, 1e9) }),
		"half an entry":  appendBytes(nil, entriesField, []byte{0x08}),
		"many entries":   bytes.Repeat(entry(func(b []byte) []byte { return appendUint(b, 1, 1) }), maxEntries+1),
		"much data in 3": bytes.Repeat(entry(func(b []byte) []byte { return appendUint(b, 4, maxData/2) }), 3),
	} {
		r, err := parseRequest(head, nil, nil)
		assert.Error(t, err, "%s was taken for %+v", name, r)
	}
}

func TestHeaders(t *testing.T) {
	want := Header{From: nodeID(1), To: nodeID(2), Cluster: testCluster, Traffic: entries}
	said, err := want.append(nil)
	assert.NoError(t, err)
	if got, err := ReadHeader(bytes.NewReader(said)); err != nil || got != want {
		t.Fatalf("%+v, %v", got, err)
	}
	for at, b := range map[int]byte{0: 0, 1: byte(Pulls) + 1} {
		wrong := bytes.Clone(said)
		wrong[at] = b
		_, err := ReadHeader(bytes.NewReader(wrong))
		assert.Error(t, err, "byte %d may be %d", at, b)
	}
	if _, err := (Header{From: "short", To: nodeID(2), Cluster: testCluster}).append(nil); !errors.Is(err, errID) {
		t.Error(err)
	}
}

// FuzzRequests checks that the reader of a stream ends for any bytes, and allocates no more than the bytes are worth.
func FuzzRequests(f *testing.F) {
	var b batch
	for _, r := range []*raft.AppendEntriesRequest{
		{Term: 5},
		{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte(self)}, Term: 5, PrevLogEntry: 6, Entries: []*raft.Log{
			{Index: 7, Term: 5, Data: []byte("data"), AppendedAt: time.Unix(1, 1)}, {Index: 8, Extensions: []byte("ext")},
		}},
	} {
		assert.NoError(f, appendRequest(&b, 3, 4, self, r))
		f.Add(byte(entries), bytes.Clone(b.buf))
	}
	f.Add(byte(beats), b.buf[:20])
	for _, head := range [][]byte{
		appendUint(nil, groupField, 1<<32), appendUint(nil, prevTermField, 7), appendUint(nil, commitField, 7),
		appendUint(nil, ownField, 1),
		protowire.AppendBytes(protowire.AppendTag(nil, addrField, protowire.BytesType), []byte("a")),
		appendUint(nil, 99, 1), appendUint(nil, entriesField, 1), {0x80}, {0x0b}, {0x9d, 6, 0, 0, 0, 0},
	} {
		f.Add(byte(entries), framed(head))
	}
	f.Add(byte(beats), []byte{0xff, 0xff, 0xff, 0xff, 0})
	f.Fuzz(func(t *testing.T, l byte, said []byte) {
		r := newRequestReader(bytes.NewReader(said), Header{From: self, Traffic: Traffic(l % 2)})
		for taken := 0; ; {
			req, err := r.next()
			if err == nil {
				err = readEntries(r.Reader, req)
			}
			if err != nil {
				return
			}
			for i, e := range req.rpc.Entries {
				if len(e.Data) != req.sizes[i].data || len(e.Extensions) != req.sizes[i].extensions {
					t.Fatalf("entry %d of %+v", i, req)
				}
			}
			if taken += req.data; taken > len(said) || len(req.rpc.Entries) > maxEntries {
				t.Fatalf("%d entries, %d bytes of data out of %d", len(req.rpc.Entries), taken, len(said))
			}
			if r.traffic == beats && len(req.rpc.Entries) > 0 {
				t.Fatal("entries among heartbeats")
			}
			var again batch
			if err := appendRequest(&again, req.group, req.number, self, req.rpc); err != nil {
				t.Fatalf("a request that was read cannot be written: %v", err)
			}
		}
	})
}

// framed returns a head with its length before it.
func framed(head []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(head))), head...)
}

// FuzzAnswers checks that any bytes parse as an answer or fail with an error.
func FuzzAnswers(f *testing.F) {
	var b batch
	appendAnswer(&b, 4, self, &raft.AppendEntriesResponse{Term: 5, LastLog: 6, Success: true}, nil)
	appendAnswer(&b, 5, self, nil, errNotHere)
	f.Add(b.buf)
	f.Add(b.buf[:10])
	for _, head := range [][]byte{
		appendUint(nil, noBackoffField, 1), appendUint(nil, ownField, 1), appendUint(nil, protoField, 3),
		protowire.AppendBytes(protowire.AppendTag(nil, idField, protowire.BytesType), []byte("id")),
		protowire.AppendBytes(protowire.AppendTag(nil, addrField, protowire.BytesType), []byte("a")),
		appendUint(nil, 99, 1), {0x80}, {0x0b}, {0x9d, 6, 0, 0, 0, 0},
	} {
		f.Add(framed(head))
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0})
	f.Fuzz(func(t *testing.T, said []byte) {
		r := bufio.NewReaderSize(bytes.NewReader(said), lengthBytes+maxAnswer)
		for {
			var a answer
			err := readHead(r, maxAnswer, func(head []byte) error {
				var err error
				a, err = parseAnswer(head, []byte(self))
				return err
			})
			if err != nil {
				return
			}
			if a.err != nil && (a.resp.Success || a.resp.Term != 0) {
				t.Fatalf("an error that is a success: %+v", a)
			}
		}
	})
}
