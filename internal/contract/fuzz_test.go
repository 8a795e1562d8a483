package contract

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var values = []string{
	``, ` `, `{}`, `[]`, ` { } `, `{"a":1}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1 "b":2}`, `{"a" : [1, 2.5e-3, {"b":null}] }`,
	`[1,2`, `[1 2]`, `[,]`, `[1,]`, `]`, `}`, `{]`, `[}`, `[[[]],{}]`, `{"a":{"b":{}}}x`, `1`, `-0`, `-`, `01`, `1.`, `.5`, `1e`,
	`1e+`, `1E-05`, `-1.50`, `"x"`, `"`, `"\"`, `"\u00e9"`, `"\u00e"`, `"\x"`, "\"\x01\"", "\"\xff\"", `true`, `tru`, `falsey`, `null`,
	`nul`, "\"a\nb\"", "{\n\"a\":\r1\t}", `{"a":1}{"b":2}`, `{},"queue":"x"`, `1,2`, `{"":""}`, `[true,false,null,"s",-1]`,
	strings.Repeat("[", 999) + strings.Repeat("]", 999), strings.Repeat("[", 1001) + strings.Repeat("]", 1001),
	strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70), strings.Repeat(`{"a":[`, 70) + strings.Repeat("}]", 70),
	strings.Repeat("[", 1001), `{"`, `{"a`, `{"a":"b`, `"\`, "{\"a\":\"\x01\"}",
	`{"a":"\x"}`, `{"\`, `{"a":{"b`, `{"a":[0,-0.5`,
}

// FuzzValid compares Valid with encoding/json, which also accepts bytes that are not UTF-8 and any depth.
func FuzzValid(f *testing.F) {
	for _, v := range values {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := Valid(b)
		if want := json.Valid(b) && utf8.Valid(b) && depth(b) <= MaxDepth; (err == nil) != want {
			t.Errorf("%q: %v, want %v", b, err, want)
		}
	})
}

// depth returns how deep arrays and objects are nested in valid JSON.
func depth(text []byte) int {
	open, deepest, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			open++
			deepest = max(deepest, open)
		case c == ']' || c == '}':
			open--
		}
	}
	return deepest
}

// TestValidSeesEachByteOfAString tries every byte at every place of a string, both in words of eight bytes and alone.
func TestValidSeesEachByteOfAString(t *testing.T) {
	const length = 20
	for at := range length {
		for c := range 256 {
			b := []byte(`"` + strings.Repeat("a", length) + `"`)
			b[1+at] = byte(c)
			if got, want := Valid(b) == nil, json.Valid(b) && utf8.Valid(b); got != want {
				t.Fatalf("%q: %v, want %v", b, got, want)
			}
		}
	}
}

func BenchmarkValid(b *testing.B) {
	const order = `{"order":1042,"customer":{"id":"c-88213","tier":"gold"},"items":[{"sku":"A-1001","count":2},` +
		`{"sku":"B-2044","count":1}],"total":129.95,"currency":"EUR","note":"close unless it is paid","attempt":1}`
	for name, payload := range map[string]string{"order": order, "large": `"` + strings.Repeat("x", 16<<10) + `"`} {
		b.Run(name, func(b *testing.B) {
			payload := []byte(payload)
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				if err := Valid(payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzDuration(f *testing.F) {
	f.Add("1d12h30m1.5s")
	f.Add("P1W2DT3H4M5.6S")
	f.Add("-0.000000000000000000000001ns")
	for _, text := range []string{
		"0", "", "-", "1", ".s", ".5ms", "1x", "300y", "9223372036854775808ns", "106752d", "1.0001ms", "P", "PT",
		"9223372036854580808ns", // its milliseconds, rounded up, are no time.Duration
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil || d == math.MaxInt64 {
			return
		}
		if negative := strings.HasPrefix(text, "-"); negative && d > 0 || !negative && d < 0 {
			t.Fatalf("%q became %v", text, d)
		}
		if d >= 0 && d <= math.MaxInt64-time.Millisecond {
			ms := CeilMs(d)
			back, err := ParseDuration(strings.Trim(string(AppendDuration(nil, time.Duration(ms)*time.Millisecond)), `"`))
			if err != nil || CeilMs(back) != ms {
				t.Fatalf("%q became %d ms became %v %v", text, ms, back, err)
			}
		}
	})
}

func FuzzInstant(f *testing.F) {
	f.Add("2026-11-21T10:00:00.0005+01:00")
	f.Add("9999-12-31T23:59:59.9999Z")
	f.Add("2026-02-29T10:00:00Z")
	f.Add("2026-11-21 10:00:00Z")
	f.Fuzz(func(t *testing.T, text string) {
		ms, err := ParseInstant(text)
		if err != nil || ms < 0 {
			return
		}
		again, err := ParseInstant(strings.Trim(string(AppendInstant(nil, ms)), `"`))
		if err != nil && ms < 253402300800000 || err == nil && again != ms { // the year 10000 has no form
			t.Fatalf("%q became %d became %d %v", text, ms, again, err)
		}
	})
}
