package peerkeys

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
)

func TestNodeName(t *testing.T) {
	for names, want := range map[string]string{
		"n1" + NameSuffix: "n1", "h.example N2" + NameSuffix: "n2", "a" + NameSuffix + " b" + NameSuffix: "",
		"*" + NameSuffix: "", NameSuffix: "", "x.y" + NameSuffix: "", "h.example": "", "": "",
	} {
		name, err := NodeName(&x509.Certificate{DNSNames: strings.Fields(names)})
		if name != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v", names, name, err)
		}
	}
}

func TestParseGossip(t *testing.T) {
	line := func(b byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) }
	for text, want := range map[string]string{
		line(1): "1", "\n# old\n" + line(2) + "\r\n" + line(1) + "\n": "21", "": "!", "# none": "!", line(1)[:43]: "!",
		line(1) + "\n" + line(2)[:20]: "!", line(1) + "\n" + line(1): "!", strings.Repeat("x", 44): "!",
		strings.Join([]string{line(1), line(2), line(3), line(4), line(5), line(6), line(7), line(8), line(9)}, "\n"): "!",
	} {
		keys, err := ParseGossip([]byte(text))
		got := ""
		for _, key := range keys {
			got += string('0' + rune(key[0]))
		}
		if err != nil {
			got = "!"
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		if err == nil {
			again, err := ParseGossip(FormatGossip(keys))
			if err != nil || !slices.EqualFunc(again, keys, bytes.Equal) {
				t.Errorf("%q: written as %q", text, FormatGossip(keys))
			}
		}
	}
}
