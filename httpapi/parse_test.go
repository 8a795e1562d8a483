package httpapi

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "-0s": 0, "500ms": 500 * time.Millisecond, "48h": 48 * time.Hour, "7d": 7 * day,
		"1d12h": 36 * time.Hour,
		"1.5d":  36 * time.Hour, "0.1d": 144 * time.Minute, ".5s": 500 * time.Millisecond, "1.s": time.Second,
		"1µs": time.Microsecond,
		"1us": time.Microsecond, "-1m": -time.Minute, "+1m": time.Minute, "0.0000000001s": 1,
		"1.0000000000000000000000001s": 1e9 + 1,
		"300d300h":                     300*day + 300*time.Hour, "9999999999d": math.MaxInt64, "9e9": -1,
		"1": -1, "": -1, "-": -1, ".s": -1, "s": -1, "1 s": -1, "1y": -1, "1d ": -1, "1D": -1, "--1s": -1, "1h-1m": -1,
	} {
		got, err := parseDuration(text)
		if bad := want == -1; (err != nil) != bad || !bad && got != want {
			t.Errorf("%q: %v %v, want %v", text, got, err, want)
		}
	}
}

// What Go writes is read as Go meant it, and what is written here is read again.
func TestDurationsAgreeWithGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Min(-math.MaxInt64).Draw(t, "d"))
		if got, err := parseDuration(d.String()); err != nil || got != d {
			t.Fatalf("%v: %v %v", d, got, err)
		}
		ms := rapid.Int64Range(0, 100*365*24*3600*1000).Draw(t, "ms")
		text := string(appendDuration(nil, ms))
		if got, err := parseDuration(text); err != nil || got.Milliseconds() != ms {
			t.Fatalf("%d ms became %s became %v %v", ms, text, got, err)
		}
	})
}

func TestAppendDuration(t *testing.T) {
	for ms, want := range map[int64]string{500: "500ms", 1500: "1.5s", 15_000: "15s", 600_000: "10m", 5_400_000: "1h30m",
		48 * 3_600_000: "48h", 7 * 86_400_000: "7d", 86_400_000*3 + 1: "3d1ms"} {
		if got := string(appendDuration(nil, ms)); got != want {
			t.Errorf("%d: %s, want %s", ms, got, want)
		}
	}
}

func TestParseInstant(t *testing.T) {
	const at = 1795255200000 // 2026-11-21T10:00:00Z
	for text, want := range map[string]int64{
		"2026-11-21T10:00:00Z": at, "2026-11-21t10:00:00z": at, "2026-11-21T11:00:00+01:00": at,
		"2026-11-21T04:30:00-05:30": at,
		"2026-11-21T10:00:00.5Z":    at + 500, "2026-11-21T10:00:00.001Z": at + 1, "2026-11-21T10:00:00.0001Z": at + 1,
		"2026-11-21T10:00:00.000000001Z": at + 1, "2026-11-21T10:00:00.0000000001Z": at + 1,
		"2026-11-21T10:00:00.0000000000Z":         at,
		"2026-11-21T10:00:00.0010000000001+00:00": at + 2, "1970-01-01T00:00:00Z": 0, "1969-12-31T23:59:59.9999Z": 0,
		"2026-11-21 10:00:00Z": -1, "2026-11-21T10:00:00,5Z": -1, "2026-11-21T1:00:00Z": -1, "2026-11-21T10:00Z": -1,
		"2026-11-21T10:00:00+24:00": -1, "2026-02-30T10:00:00Z": -1, "": -1,
	} {
		got, err := parseInstant(text)
		if bad := want == -1; (err != nil) != bad || !bad && got != want {
			t.Errorf("%q: %d %v, want %d", text, got, err, want)
		}
	}
}

// The scanner accepts what encoding/json accepts, as far as the two mean to agree: depth and UTF-8 are its own.
func TestScannerAgreesWithEncodingJSON(t *testing.T) {
	alphabet := []string{"{", "}", "[", "]", ",", ":", `"a"`, `"\n"`, `"`, `\`, "1", "-", "0", ".", "e", "true", "false",
		"null", " ", "\t", "x"}
	rapid.Check(t, func(t *rapid.T) {
		var text []byte
		for _, part := range rapid.SliceOfN(rapid.SampledFrom(alphabet), 0, 12).Draw(t, "parts") {
			text = append(text, part...)
		}
		s := &scanner{data: text}
		_, err := s.value()
		if err == nil {
			err = s.end()
		}
		if json.Valid(text) != (err == nil) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

func TestStringsAreWrittenAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		out := appendString(nil, text)
		var back string
		if err := json.Unmarshal(out, &back); err != nil || back != text {
			t.Fatalf("%q became %s became %q (%v)", text, out, back, err)
		}
		s := &scanner{data: out}
		if own, err := s.str(); err != nil || string(own) != text {
			t.Fatalf("%q became %s became %q (%v)", text, out, own, err)
		}
	})
	if got := string(appendString(nil, "a\xffb")); got != "\"a\ufffdb\"" {
		t.Errorf("a bad byte became %s", got)
	}
}
