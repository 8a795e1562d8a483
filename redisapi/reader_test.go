package redisapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/belfryhq/belfry/internal/admission"
	"github.com/belfryhq/belfry/internal/assert"
)

// sent returns a command as clients send it.
func sent(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	return b.String()
}

// readWhole returns the commands of an input, and the error that ends it; nil: its end.
func readWhole(in io.Reader) (cmds [][][]byte, err error) {
	r := newReader(in, func(int) bool { return true })
	for {
		some, err := r.whole()
		cmds = append(cmds, some...)
		if err == nil {
			err = r.fill()
		}
		if errors.Is(err, io.EOF) {
			return cmds, nil
		}
		if err != nil {
			return cmds, err
		}
	}
}

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 300_000)
	for in, want := range map[string]string{
		sent("PING") + sent("ZADD", "q", "1", "a\r\nb") + "*2\r\n$4\r\nECHO": `[[PING] [ZADD q 1 a` + "\r\n" + `b]] <nil>`,
		"PING\r\n\r\n  ECHO  a \n*0\r\n*-1\r\nQUIT\n":                        "[[PING] [ECHO a] [QUIT]] <nil>",
		sent("ECHO", long):   "[[ECHO " + long + "]] <nil>",
		sent("ECHO", ""):     "[[ECHO ]] <nil>",
		"PING\n*1\r\n:1\r\n": `[[PING]] ERR Protocol error: expected '$', got ":"`,
		"*1\r\n\r\n":         `[] ERR Protocol error: expected '$', got ""`,
		"*x\r\n":             "[] ERR Protocol error: invalid multibulk length",
		"*65537\r\n":         "[] ERR Protocol error: invalid multibulk length",
		"*1\r\n$-1\r\n":      "[] ERR Protocol error: invalid bulk length",
		// A length that ends a process of redcon 1.6.4.
		"*1\r\n$9223372036854775807\r\nabc\r\n": "[] ERR Protocol error: invalid bulk length",
		"*1\r\n$4194305\r\n":                    "[] ERR Protocol error: invalid bulk length",
		"*2\r\n$4194200\r\n" + strings.Repeat("y", 4194200) + "\r\n$100\r\n": "[] ERR Protocol error: a command has more than " +
			"4194304 bytes",
		"*1\r\n$1\r\nab\r\n":                "[] ERR Protocol error: an argument has not the length that it was announced with",
		"*" + strings.Repeat("1", 70):       "[] ERR Protocol error: too big mbulk count string",
		"*1\r\n$" + strings.Repeat("1", 70): "[] ERR Protocol error: too big bulk count string",
		strings.Repeat("a", 70_000):         "[] ERR Protocol error: too big inline request",
		"ECHO 'a b'\r\n":                    "[] ERR Protocol error: no quotes are understood in inline requests",
	} {
		for name, reader := range map[string]io.Reader{
			"at once": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in)),
		} {
			cmds, err := readWhole(reader)
			if got := fmt.Sprintf("%s %v", cmds, err); got != want {
				t.Errorf("%.100q, %s:\n%.200s, want\n%.200s", in, name, got, want)
			}
		}
	}
}

// TestReaderReservesMemory checks that the bytes of commands are reserved, beyond the first ones, until they are
// carried out, and that a connection without memory is refused.
func TestReaderReservesMemory(t *testing.T) {
	taken, most := 0, 200_000
	in := io.MultiReader(strings.NewReader(sent("ECHO", strings.Repeat("x", 150_000))),
		strings.NewReader(sent("ECHO", strings.Repeat("y", 250_000))))
	r := newReader(in, func(n int) bool {
		taken += n
		return taken <= most
	})
	var err error
	for i := 0; err == nil; {
		var cmds [][][]byte
		if cmds, err = r.whole(); len(cmds) > 0 {
			if i++; i == 1 && (taken < 130_000 || taken > 160_000) {
				t.Errorf("%d bytes are reserved", taken)
			}
			taken -= r.release()
			assert.Equal(t, taken, 0, "after the command")
		}
		if err == nil {
			err = r.fill()
		}
	}
	if !errors.Is(err, errMemory) {
		t.Error(err)
	}
}

// input is a connection whose client sends bytes in pieces and reads nothing before.
type input struct {
	io.Reader
	out bytes.Buffer
}

func (c *input) Write(p []byte) (int, error)      { return c.out.Write(p) }
func (c *input) Close() error                     { return nil }
func (c *input) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *input) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }
func (c *input) SetDeadline(time.Time) error      { return nil }
func (c *input) SetReadDeadline(time.Time) error  { return nil }
func (c *input) SetWriteDeadline(time.Time) error { return nil }

// pieces reads a few bytes at a time.
type pieces struct {
	io.Reader
	size int
}

func (p pieces) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), p.size)]) }

// empty is the API of a cluster without tasks, which takes every task. Its first bad request becomes fault.
type empty struct{ fault error }

func (e *empty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/v1/batch":
		lines := bufio.NewScanner(r.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var op struct{ Op, ID string }
			if err := json.Unmarshal(lines.Bytes(), &op); err != nil || op.Op != "schedule" || op.ID == "" {
				e.fault = fmt.Errorf("%q: %w", lines.Bytes(), err)
			}
			_, _ = fmt.Fprintf(w, "{\"id\":%q,\"status\":201,\"revision\":1}\n", op.ID)
		}
	case path == "/v1/tasks", strings.HasSuffix(path, "/lease"):
		_, _ = io.WriteString(w, `{"tasks":[],"next_cursor":null}`)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"type":"urn:belfry:problem:task-not-found","status":404}`)
	}
}

// answersTo returns what a server answers to bytes that come in pieces.
func answersTo(t *testing.T, in []byte, size int) string {
	t.Helper()
	var log assert.Log
	api := new(empty)
	s, err := New(Config{API: api, Scores: Seconds, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	assert.NoError(t, err)
	conn := &input{Reader: pieces{bytes.NewReader(in), size}}
	s.admit(conn).serve()
	if n := log.Take("panic"); n != 0 || api.fault != nil {
		t.Fatalf("%d panics, %v", n, api.fault)
	}
	if left := s.memory.Taken(); left != 0 {
		t.Fatalf("%d bytes of memory are held after the end", left)
	}
	return conn.out.String()
}

// FuzzCommands checks that any bytes are answered in whole answers, and alike however they are cut in pieces.
func FuzzCommands(f *testing.F) {
	for _, seed := range []string{
		sent("ZADD", "q", "1", "a", "2", "b") + sent("ZADD", "q", "NX", "CH", "1", "a") + sent("ZREM", "q", "a"),
		sent("HELLO", "3", "SETNAME", "x") + sent("ZSCORE", "q", "a") + sent("ZRANGEBYSCORE", "q", "(1", "+inf", "WITHSCORES"),
		sent("MULTI") + sent("ZADD", "q", "1", "a") + sent("EXEC") + sent("DISCARD"),
		sent("COMMAND") + sent("COMMAND", "DOCS") + sent("INFO") + sent("CLIENT", "ID") + sent("ZPOPMIN", "q", "3"),
		sent("ZCARD", "q") + sent("EVAL", "x\r\n+OK", "0") + sent("AUTH", "a", "b") + sent("QUIT") + sent("PING"),
		sent("ZADD", "q", "1e308", "a") + sent("ZADD", "q", "-0", "a") + sent("ZADD", "q", "0x1p4", "\xff\n"),
		sent("ZRANGEBYSCORE", "q", "-1e400", "(nan", "LIMIT", "-1", "9223372036854775807"),
		"PING\r\nPOST / HTTP/1.1\r\nZADD q 1 a\r\n", "*1\r\n$4\r\nPI", "\r\n\n*0\r\n$", "ZADD q 1 a b\nECHO \x00\n",
	} {
		f.Add([]byte(seed), uint8(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		whole := answersTo(t, in, 1<<20)
		if cut := answersTo(t, in, int(size)+1); cut != whole {
			t.Fatalf("cut in pieces of %d:\n%q, want\n%q", int(size)+1, cut, whole)
		}
		for rest := bufio.NewReader(strings.NewReader(whole)); ; {
			if _, err := rest.Peek(1); err != nil {
				break
			}
			if err := skipAnswer(rest); err != nil {
				t.Fatalf("%v in %q", err, whole)
			}
		}
	})
}

// skipAnswer reads a whole answer.
func skipAnswer(in *bufio.Reader) error {
	line, err := in.ReadString('\n')
	if err != nil || len(line) < 3 || !strings.HasSuffix(line, "\r\n") || strings.Count(line, "\r") != 1 {
		return fmt.Errorf("line %q: %w", line, err)
	}
	var n int
	switch kind, value := line[0], line[1:len(line)-2]; kind {
	case '+', '-', ':', ',', '_':
		return nil
	case '$':
		if _, err := fmt.Sscan(value, &n); err != nil || n < 0 {
			return err
		}
		_, err := io.CopyN(io.Discard, in, int64(n)+2)
		return err
	case '*', '%':
		if _, err := fmt.Sscan(value, &n); err != nil {
			return err
		}
		if kind == '%' {
			n *= 2
		}
		for range n {
			if err := skipAnswer(in); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("unknown kind of answer: %q", line)
}

// TestMemoryOfAllConnections checks that one host does not take all of the memory.
func TestMemoryOfAllConnections(t *testing.T) {
	s, err := New(Config{API: new(empty), Scores: Seconds, MemoryBytes: 1 << 20})
	assert.NoError(t, err)
	if !(admission.Part{Pool: s.memory, Name: "another host"}).Take(500 << 10) {
		t.Fatal("no memory")
	}
	conn := &input{Reader: strings.NewReader(sent("ECHO", strings.Repeat("x", 400<<10)))}
	s.admit(conn).serve()
	if got := conn.out.String(); !strings.HasPrefix(got, "-ERR the memory for commands") {
		t.Errorf("%.100q", got)
	}
}
