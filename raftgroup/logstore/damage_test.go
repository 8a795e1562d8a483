package logstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
)

// whole makes a folder of several segments with entries 1 to `last` in batches of five, and returns its files by
// relative path.
func whole(t *testing.T, kind Kind, last uint64) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	s := mustOpen(t, Config{Dir: dir, Kind: kind})
	for from := uint64(1); from <= last; from += 5 {
		mustStore(t, s, entries(from, from+4, 1))
	}
	mustClose(t, s)
	files := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files[path] = readFile(t, filepath.Join(dir, path))
		}
		return err
	})
	assert.NoError(t, err)
	return files
}

func writeFiles(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	assert.NoError(t, os.Mkdir(filepath.Join(dir, "wal"), 0o700))
	for path, b := range files {
		writeFile(t, filepath.Join(dir, path), b)
	}
	return dir
}

func segmentNames(files map[string][]byte) []string {
	var names []string
	for path := range files {
		if filepath.Ext(path) == ".wal" {
			names = append(names, path)
		}
	}
	for i := range names { // by first index, with which the name begins
		for j := range i {
			if names[i] < names[j] {
				names[i], names[j] = names[j], names[i]
			}
		}
	}
	return names
}

// TestFlippedByteInSegment checks, for any byte of any segment, that Open either reports the change or returns the
// original log. Only the last batch may be missing, since a torn write looks the same.
func TestFlippedByteInSegment(t *testing.T) {
	t.Parallel()
	const last = 100
	files := whole(t, WAL, last)
	names := segmentNames(files)
	if len(names) < 3 {
		t.Fatalf("only %d segments", len(names))
	}
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom(names).Draw(rt, "segment")
		used := len(bytes.TrimRight(files[name], "\x00"))
		at := rapid.IntRange(0, min(used, len(files[name])-1)).Draw(rt, "at")
		dir := writeFiles(t, files)
		b := bytes.Clone(files[name])
		b[at] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
		writeFile(t, filepath.Join(dir, name), b)
		s, err := Open(testConfig(t, Config{Dir: dir}))
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				rt.Fatalf("error %v", err)
			}
			return
		}
		defer mustClose(t, s)
		_, got, err := bounds(s.Log())
		if err != nil || got != last && got != last-5 {
			rt.Fatalf("log ends at %d, %v", got, err)
		}
		mustHold(t, s.Log(), 1, got, 1)
		mustStore(t, s, entries(got+1, got+100, 1))
		mustHold(t, s.Log(), 1, got+100, 1)
	})
}

// TestFlippedByteInBolt flips bytes of bolt files. Their pages have no checksums, so content may change; but no flip
// causes a panic, an endless loop or endless memory.
func TestFlippedByteInBolt(t *testing.T) {
	t.Parallel()
	for kind, name := range map[Kind]string{WAL: "wal/wal-meta.db", BoltDB: "log.db"} {
		for _, name := range []string{name, "stable.db"} {
			t.Run(string(kind)+" "+filepath.Base(name), func(t *testing.T) {
				files := whole(t, kind, 100)
				rapid.Check(t, func(rt *rapid.T) {
					dir := writeFiles(t, files)
					b := bytes.Clone(files[name])
					b[rapid.IntRange(0, len(b)-1).Draw(rt, "at")] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
					writeFile(t, filepath.Join(dir, name), b)
					if s, err := Open(testConfig(t, Config{Dir: dir, Kind: kind})); err == nil {
						mustClose(t, s)
					}
				})
			})
		}
	}
}

// TestImpossibleBoltPage checks pages that would lead bbolt out of the file, in circles, or into an endless list.
func TestImpossibleBoltPage(t *testing.T) {
	t.Parallel()
	files := whole(t, WAL, 100)
	order := binary.NativeEndian
	each := func(b []byte, flags uint16, do func(id uint64, page []byte)) { // pages of former transactions, too
		size := os.Getpagesize()
		for at := 2 * size; at < len(b); at += size {
			if page := b[at : at+size]; order.Uint16(page[8:]) == flags {
				do(uint64(at/size), page)
			}
		}
	}
	for name, damage := range map[string]func(b []byte){
		"key beyond the page": func(b []byte) {
			each(b, boltLeaf, func(_ uint64, page []byte) { order.PutUint32(page[boltHeader+8:], 43000) })
		},
		"bucket in itself": func(b []byte) {
			each(b, boltLeaf, func(id uint64, page []byte) {
				element := page[boltHeader:]
				order.PutUint64(element[order.Uint32(element[4:])+order.Uint32(element[8:]):], id)
			})
		},
		"more elements than bytes": func(b []byte) {
			each(b, boltLeaf, func(_ uint64, page []byte) { order.PutUint16(page[10:], 0xffff) })
		},
		"page without end": func(b []byte) {
			each(b, boltLeaf, func(_ uint64, page []byte) { order.PutUint32(page[12:], 0xffffffff) })
		},
		"free list without end": func(b []byte) {
			each(b, boltFreelist, func(_ uint64, page []byte) {
				order.PutUint16(page[10:], boltManyFree)
				order.PutUint64(page[boltHeader:], 1<<40)
			})
		},
		"page in use and free": func(b []byte) {
			var leaves []byte
			each(b, boltLeaf, func(id uint64, _ []byte) { leaves = order.AppendUint64(leaves, id) })
			each(b, boltFreelist, func(_ uint64, page []byte) {
				order.PutUint16(page[10:], uint16(len(leaves)/boltPageID))
				copy(page[boltHeader:], leaves)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeFiles(t, files)
			b := bytes.Clone(files["stable.db"])
			damage(b)
			writeFile(t, filepath.Join(dir, "stable.db"), b)
			if s, err := Open(testConfig(t, Config{Dir: dir})); err == nil {
				mustClose(t, s)
				t.Error("opened")
			} else if !errors.Is(err, ErrDamaged) {
				t.Error(err)
			} else {
				t.Log(err)
			}
		})
	}
}

func TestShortenedFileIsDamage(t *testing.T) {
	const anySegment = ""
	for kind, names := range map[Kind][]string{
		WAL:    {"wal/wal-meta.db", "stable.db", anySegment},
		BoltDB: {"log.db", "stable.db"},
	} {
		files := whole(t, kind, 100)
		for _, name := range names {
			if name == anySegment {
				name = segmentNames(files)[0]
			}
			for _, keep := range []int{0, 100, len(files[name]) / 2} {
				dir := writeFiles(t, files)
				writeFile(t, filepath.Join(dir, name), files[name][:keep])
				s, err := Open(testConfig(t, Config{Dir: dir, Kind: kind}))
				if err == nil { // bolt allocates ahead: the missing half was unused
					mustHold(t, s.Log(), 1, 100, 1)
					mustClose(t, s)
				} else if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrLostLog) {
					t.Errorf("%s, %d bytes of %s: %v", kind, keep, name, err)
				}
			}
		}
	}
}

func TestMissingSegmentIsDamage(t *testing.T) {
	files := whole(t, WAL, 100)
	delete(files, segmentNames(files)[1])
	_, err := Open(testConfig(t, Config{Dir: writeFiles(t, files)}))
	assert.ErrorIs(t, err, ErrDamaged, "Open")
}

// newestOf returns the name of the newest segment and the offsets of its batches' ends.
func newestOf(t *testing.T, files map[string][]byte) (name string, ends []int) {
	t.Helper()
	names := segmentNames(files)
	name = names[len(names)-1]
	for off := segmentHeaderLen; ; {
		f, ok := frameAt(files[name], off)
		if !ok {
			break
		}
		if off = f.end; f.typ == frameCommit {
			ends = append(ends, off)
		}
	}
	if len(ends) < 3 {
		t.Fatalf("only %d batches in the newest segment", len(ends))
	}
	return name, ends
}

// TestDamagedBatchIsNoTornWrite checks that Open distinguishes damage from a torn write. raft-wal itself takes the
// first unreadable frame for the end of the log.
func TestDamagedBatchIsNoTornWrite(t *testing.T) {
	files := whole(t, WAL, 110)
	name, ends := newestOf(t, files)
	n := len(ends)
	cases := []struct {
		name     string
		from, to int // the zeroed range
		want     error
		last     uint64
	}{
		{"the last batch", ends[n-2], ends[n-1], nil, 105},
		{"the last batch's start", ends[n-2], ends[n-2] + 8, nil, 105},
		{"the last batch's end", ends[n-1] - 8, ends[n-1], nil, 105},
		{"the batch before, whole", ends[n-3], ends[n-2], ErrDamaged, 0},
		{"the batch before, its start", ends[n-3], ends[n-3] + 8, ErrDamaged, 0},
		{"the batch before, its end", ends[n-2] - 8, ends[n-2], ErrDamaged, 0},
		{"the segment's header", 0, 8, ErrDamaged, 0},
		{"all but the last batch", 0, ends[n-2], ErrDamaged, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := writeFiles(t, files)
			b := bytes.Clone(files[name])
			clear(b[c.from:c.to])
			writeFile(t, filepath.Join(dir, name), b)
			s, err := Open(testConfig(t, Config{Dir: dir}))
			if !errors.Is(err, c.want) {
				t.Fatalf("Open: %v, want %v", err, c.want)
			}
			if err != nil {
				return
			}
			defer mustClose(t, s)
			mustHold(t, s.Log(), 1, c.last, 1)
			rest := readFile(t, filepath.Join(dir, name))[ends[n-2]:]
			if len(bytes.TrimRight(rest, "\x00")) > 0 {
				t.Error("the torn write was left in the file")
			}
		})
	}
}

// TestChecksumOnRead checks that a read finds damage that came while the log was open.
func TestChecksumOnRead(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, Config{Dir: dir})
	mustStore(t, s, entries(1, 5, 1))
	newest := segmentFiles(t, dir)[0]
	f, err := os.OpenFile(newest, os.O_RDWR, 0)
	assert.NoError(t, err)
	defer f.Close()
	if _, err := f.WriteAt([]byte{0xff}, int64(bytes.Index(readFile(t, newest), content(3, 1)))); err != nil {
		t.Fatal(err)
	}
	var got raft.Log
	assert.ErrorIs(t, s.Log().GetLog(3, &got), ErrDamaged, "read %+v", got)
	mustRead(t, s.Log(), 4, 1)
}

func FuzzDecode(f *testing.F) {
	var b bytes.Buffer
	assert.NoError(f, new(codec).Encode(entry(3, 2), &b))
	f.Add(b.Bytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, record []byte) {
		var got raft.Log
		if err := new(codec).Decode(record, &got); err != nil {
			return
		}
		var again bytes.Buffer
		c := codec{durable: durableBefore(record)}
		assert.NoError(t, c.Encode(&got, &again))
	})
}

// segments returns the written files of a log whose second segment exists, without the unused zeros.
func segments(tb testing.TB) [][]byte {
	tb.Helper()
	dir := tb.TempDir()
	s := mustOpen(tb, Config{Dir: dir, segmentSize: 4 << 10})
	mustStore(tb, s, entries(1, 5, 1))
	for n := uint64(6); len(segmentFiles(tb, dir)) < 2; n++ {
		mustStore(tb, s, entries(n, n, 1))
	}
	mustClose(tb, s)
	var files [][]byte
	for _, path := range segmentFiles(tb, dir) {
		if b := bytes.TrimRight(readFile(tb, path), "\x00"); len(b) > 0 { // the next segment is made ahead
			files = append(files, b)
		}
	}
	return files
}

func FuzzScan(f *testing.F) {
	f.Add(make([]byte, 64))
	f.Add(append(make([]byte, 32), 3, 0, 0, 0, 1, 2, 3, 4))
	for _, segment := range segments(f) {
		f.Add(segment)
		f.Add(segment[:len(segment)-1])
		torn := bytes.Clone(segment)
		torn[len(torn)/2] ^= 1
		f.Add(torn)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := scanSegment(b)
		if s.end > len(b) {
			t.Fatalf("whole to %d of %d bytes", s.end, len(b))
		}
		lostEntry(b[s.end:], s.entries)
	})
}
