package client

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// values are texts, some of which are JSON.
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

// orderPayload is a typical payload of about 200 bytes.
const orderPayload = `{"order":1042,"customer":{"id":"c-88213","tier":"gold"},"items":[{"sku":"A-1001","count":2},` +
	`{"sku":"B-2044","count":1}],"total":129.95,"currency":"EUR","note":"close unless it is paid","attempt":1}`

// TestParseDuration checks that durations are read by the rules of package contract, whose tables list the accepted
// texts.
func TestParseDuration(t *testing.T) {
	if d, err := ParseDuration("1.5d"); err != nil || d != 36*time.Hour {
		t.Errorf("1.5d: %v, %v", d, err)
	}
	if _, err := ParseDuration("P1Y"); !errors.Is(err, contract.ErrCalendar) || !strings.HasPrefix(err.Error(), `"P1Y"`) {
		t.Errorf("P1Y: %v", err)
	}
}

func TestParseInstant(t *testing.T) {
	want := time.Date(2026, 11, 21, 10, 0, 0, 1e6, time.UTC)
	if at, err := ParseInstant("2026-11-21T11:00:00.0001+01:00"); err != nil || !at.Equal(want) || at.Location() != time.UTC {
		t.Errorf("%v, %v, want %v", at, err, want)
	}
	if _, err := ParseInstant("soon"); !errors.Is(err, contract.ErrInstant) || !strings.HasPrefix(err.Error(), `"soon"`) {
		t.Errorf("soon: %v", err)
	}
}
